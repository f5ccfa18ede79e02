package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/knowledge"
)

func baseFile(t *testing.T, content string) (path string, b *base) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return path, &base{fd: fd, size: st.Size, stamp: stampOfFile(&st), until: time.Now()}
}

// A base is what it was, or it is not there.
func TestBases(t *testing.T) {
	var bs bases
	defer bs.close()
	path, b := baseFile(t, "old")
	bs.put(baseID{key: "k", number: 3}, b)
	known := knowledge.Basis{Version: 3, At: time.Now().Add(-time.Minute)}
	content := func(b knowledge.Basis) string {
		data, ok := bs.content("k", &b)
		if !ok {
			return "none"
		}
		return string(data)
	}
	if got := content(known); got != "old" {
		t.Errorf("the base is %q", got)
	}
	other, later, marked := known, known, known
	other.Version = 4
	later.At = time.Now().Add(time.Minute) // read after that version 3 was replaced: another version 3
	marked.Stamp = knowledge.Stamp{Ino: 1}
	for what, b := range map[string]knowledge.Basis{"another version": other, "read later": later, "another stamp": marked} {
		if got := content(b); got != "none" {
			t.Errorf("%s: %q", what, got)
		}
	}
	if err := os.WriteFile(path, []byte("written in place"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := content(known); got != "none" {
		t.Errorf("of a file that was written to: %q", got)
	}
}

// What was used longest ago goes first.
func TestBasesAreBounded(t *testing.T) {
	var bs bases
	defer bs.close()
	put := func(n, size int) {
		bs.put(baseID{key: "k", number: uint64(n)}, &base{fd: -1, data: []byte{byte(n)}, size: int64(size), until: time.Now()})
	}
	has := func(n int) bool {
		_, ok := bs.content("k", &knowledge.Basis{Version: uint64(n)})
		return ok
	}
	for n := 1; n <= maxBases; n++ {
		put(n, 1)
	}
	if !has(1) {
		t.Error("the first is gone too early")
	}
	put(maxBases+1, 1)
	if !has(1) || has(2) || !has(3) || len(bs.list) != maxBases {
		t.Errorf("of %d: 1 %v, 2 %v, 3 %v", len(bs.list), has(1), has(2), has(3))
	}
	put(maxBases+2, maxBaseBytes)
	if len(bs.list) != 1 || bs.bytes != maxBaseBytes || !has(maxBases+2) {
		t.Errorf("%d bases with %d bytes", len(bs.list), bs.bytes)
	}
}
