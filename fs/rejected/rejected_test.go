package rejected

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/journal/commit"
	"latchfs/journal/history"
)

// stage is a state directory with a store.
type stage struct {
	t     testing.TB
	dir   string // of the store
	store *Store
}

func newStage(t testing.TB) *stage {
	t.Helper()
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &stage{t, filepath.Join(state, commit.RejectedDir), New(func() (int, bool) { return int(f.Fd()), true })}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// keep makes an entry; an empty meta is none.
func (s *stage) keep(id, content, meta string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Join(s.dir, id), 0o700))
	s.must(os.Chmod(s.dir, 0o700))
	s.must(os.WriteFile(filepath.Join(s.dir, id, commit.RejectedContent), []byte(content), 0o600))
	if meta != "" {
		s.must(os.WriteFile(filepath.Join(s.dir, id, commit.RejectedMeta), []byte(meta), 0o600))
	}
}

// meant is the meta.json of bytes that were meant for a path, whose file is a user's.
func meant(path string, uid uint32) string {
	return fmt.Sprintf(`{"path":%q,"time":"2026-01-02T03:04:05Z","dirs":[],"file":{"mode":"0640","uid":%d,"gid":7}}`, path, uid)
}

func all(*File) bool { return true }

func (s *stage) list(sees func(*File) bool) (ids []string) {
	s.t.Helper()
	list, err := s.store.List(sees)
	s.must(err)
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

// Before the first refusal there is no store, and without a state directory never.
func TestNone(t *testing.T) {
	s := newStage(t)
	for what, store := range map[string]*Store{"before the first": s.store, "no state": New(func() (int, bool) { return -1, false })} {
		list, err := store.List(all)
		ids, bytes, errOf := store.Of("f", func(uint32) bool { return true })
		_, found := store.Find("id", all)
		if len(list) > 0 || err != nil || len(ids) > 0 || bytes != 0 || errOf != nil || found {
			t.Errorf("%s: %v, %v; %v, %d, %v; %v", what, list, err, ids, bytes, errOf, found)
		}
	}
}

// All entries are listed, the oldest first, with what is known of the file.
func TestList(t *testing.T) {
	s := newStage(t)
	s.keep("3-c", "third", meant("c", 1))
	s.keep("1-a", "first", meant("a", 1))
	s.keep("2-b", "second", meant("b", 2))
	if ids := s.list(all); !slices.Equal(ids, []string{"1-a", "2-b", "3-c"}) {
		t.Errorf("listed %q", ids)
	}
	if ids := s.list(func(k *File) bool { return k.UID == 2 }); !slices.Equal(ids, []string{"2-b"}) {
		t.Errorf("of one user: %q", ids)
	}
	r, ok := s.store.Find("2-b", all)
	if !ok || r.UID != 2 || r.GID != 7 || r.Mode != 0o640 || r.Size != 6 || !r.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("found %+v, %v", r, ok)
	}
	if _, ok := s.store.Find("2-b", func(*File) bool { return false }); ok {
		t.Error("who may not know of it finds it")
	}
}

// What meta.json says is understood, and what it does not say is not made up.
func TestParse(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	whole := `{"path":"a/f","time":"2026-01-02T03:04:05Z","acl":true,"dirs":[[1,2,3]],"file":{"mode":"4755","uid":8,"gid":9}}`
	raw := base64.StdEncoding.EncodeToString([]byte("a/\xff"))
	for meta, want := range map[string]*File{
		whole: {Path: "a/f", At: at, UID: 8, GID: 9, Mode: 0o4755, ACL: true,
			Reach: history.Reach{Known: true, Gates: []history.Gate{{UID: 1, GID: 2, Mode: 3}}}},
		`{"path":"a/?","path_base64":"` + raw + `","file":{"mode":"0600"}}`: {Path: "a/\xff", Mode: 0o600},
		`{"path":"f","dirs":[],"file":{"mode":"0600"}}`:                     {Path: "f", Mode: 0o600, Reach: history.Reach{Known: true}},
		`{"path":"f"}`:                            nil, // whose it is is not known
		`{"path":"f","file":{"mode":"rw"}}`:       nil,
		`{"path":"f","file":{"mode":"77777"}}`:    nil,
		`{"path":"f","file":{"mode":"0600","uid"`: nil,
		`null`: nil,
		``:     nil,
	} {
		got, ok := parse([]byte(meta))
		if ok != (want != nil) || ok && fmt.Sprint(got) != fmt.Sprint(*want) {
			t.Errorf("%s: %+v, %v; want %+v", meta, got, ok, want)
		}
	}
}

// FuzzParse reads any bytes as what is written about refused bytes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(meant("f", 1)))
	f.Add([]byte(`{"file":{"mode":"-1"}}`))
	f.Add([]byte(`{"file":{"mode":"7777777"},"time":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, ok := parse(b)
		if k.Mode > 0o7777 {
			t.Errorf("mode %o", k.Mode)
		}
		if !ok && (k.Path != "" || k.UID != 0 || k.Reach.Known) {
			t.Errorf("%q is refused, and %+v", b, k)
		}
	})
}

// What a full disk left without meta.json is its owner's alone.
func TestWithoutMeta(t *testing.T) {
	s := newStage(t)
	s.keep("1-a", "x", "")
	var seen File
	r, ok := s.store.Find("1-a", func(k *File) bool { seen = *k; return true })
	if !ok || r.Mode != 0o600 || r.UID != uint32(os.Getuid()) || r.Time.IsZero() || seen.Path != "" || seen.Reach.Known {
		t.Errorf("found %+v of %+v, %v", r, seen, ok)
	}
	if _, err := r.Files.Meta(); err != unix.ENOENT {
		t.Errorf("its meta: %v", err)
	}
}

// Only its entries are shown of the store, and nothing outside it.
func TestNoSuchEntry(t *testing.T) {
	s := newStage(t)
	s.keep("1-a", "x", meant("a", 1))
	s.keep(".new-1", "half made", meant("a", 1))
	s.must(os.Mkdir(filepath.Join(s.dir, "empty"), 0o700))
	s.keep("dir", "x", "")
	s.must(os.Remove(filepath.Join(s.dir, "dir", commit.RejectedContent)))
	s.must(os.Mkdir(filepath.Join(s.dir, "dir", commit.RejectedContent), 0o700))
	s.keep("link", "x", "")
	s.must(os.Remove(filepath.Join(s.dir, "link", commit.RejectedContent)))
	s.must(os.Symlink("/etc/passwd", filepath.Join(s.dir, "link", commit.RejectedContent)))
	for _, id := range []string{"", ".", "..", ".new-1", "empty", "dir", "link", "none", "../rejected/1-a", "1-a/content", "empty/../1-a", "\x00", strings.Repeat("x", 300)} {
		if r, ok := s.store.Find(id, all); ok {
			t.Errorf("%q is found: %+v", id, r)
		}
	}
	if ids := s.list(all); !slices.Equal(ids, []string{"1-a"}) {
		t.Errorf("listed %q", ids)
	}
}

// The bytes can be read at any offset, and nothing stays open.
func TestContent(t *testing.T) {
	s := newStage(t)
	s.keep("1-a", "0123456789", meant("a", 1))
	before := openFiles(t)
	r, ok := s.store.Find("1-a", all)
	if !ok {
		t.Fatal("it is not found")
	}
	meta, err := r.Files.Meta()
	if err != nil || string(meta) != meant("a", 1) {
		t.Errorf("the meta is %s, %v", meta, err)
	}
	c, err := r.Files.Content()
	s.must(err)
	b := make([]byte, 4)
	if n, err := c.ReadAt(b, 3); n != 4 || err != nil || string(b) != "3456" || c.Size() != 10 {
		t.Errorf("%q of %d, %v", b[:n], c.Size(), err)
	}
	if n, err := c.ReadAt(b, 8); n != 2 || err != io.EOF {
		t.Errorf("at the end: %q, %v", b[:n], err)
	}
	s.must(c.Close())
	s.list(all)
	_, _, err = s.store.Of("a", func(uint32) bool { return true })
	s.must(err)
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	s.must(os.RemoveAll(filepath.Join(s.dir, "1-a")))
	if _, err := r.Files.Content(); err != unix.ENOENT {
		t.Errorf("of what is gone: %v", err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// What was meant for one file is found by its path, as far as it is the asker's.
func TestOf(t *testing.T) {
	s := newStage(t)
	s.keep("1-a", "12345", meant("a", 1))
	s.keep("3-a", "1", meant("a", 1))
	s.keep("2-a", "123", meant("a", 2))
	s.keep("4-b", "x", meant("b", 1))
	s.keep("5", "x", "")
	ids, bytes, err := s.store.Of("a", func(uid uint32) bool { return uid == 1 })
	if err != nil || !slices.Equal(ids, []string{"1-a", "3-a"}) || bytes != 6 {
		t.Errorf("%q, %d bytes, %v", ids, bytes, err)
	}
	if ids, _, _ := s.store.Of("", func(uint32) bool { return false }); len(ids) > 0 {
		t.Errorf("of no file: %q", ids)
	}
}

// What was read is remembered, but not of entries that are gone.
func TestForgotten(t *testing.T) {
	s := newStage(t)
	s.keep("1-a", "x", meant("a", 1))
	s.keep("2-b", "x", meant("b", 2))
	s.list(all)
	s.must(os.Remove(filepath.Join(s.dir, "2-b", commit.RejectedMeta)))
	if r, ok := s.store.Find("2-b", all); !ok || r.UID != 2 {
		t.Errorf("found %+v, %v: it is read anew each time", r, ok)
	}
	s.must(os.RemoveAll(filepath.Join(s.dir, "1-a")))
	if _, ok := s.store.Find("1-a", all); ok {
		t.Error("a removed entry is found")
	}
	s.list(all)
	if _, still := s.store.known["1-a"]; still || len(s.store.known) != 1 {
		t.Errorf("known is %+v", s.store.known)
	}
}

// Nobody waits for somebody who is asked whether it may know.
func TestAskedWithoutTheMutex(t *testing.T) {
	s := newStage(t)
	s.keep("1-a", "x", meant("a", 1))
	if ids := s.list(func(*File) bool { return len(s.list(all)) == 1 }); len(ids) != 1 {
		t.Errorf("listed %q", ids)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if list, err := s.store.List(all); len(list) != 1 || err != nil {
					t.Errorf("%d entries, %v", len(list), err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkList measures a look at many entries, the first and those that follow.
func BenchmarkList(b *testing.B) {
	s := newStage(b)
	for n := range 10_000 {
		s.keep(fmt.Sprint(n), "x", meant("a/b/c", 1))
	}
	look := func() []locksdir.Rejected {
		list, err := s.store.List(all)
		s.must(err)
		return list
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			clear(s.store.known)
			look()
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			look()
		}
	})
}

// What is known about entries that are gone is dropped, although nobody lists them: who follows
// the audit trail asks for each entry that it names.
func TestNothingIsKnownOfWhatIsGone(t *testing.T) {
	s := newStage(t)
	for i := range 3 * fewKnown {
		id := fmt.Sprintf("20260102T030405.%09d-00000000", i)
		s.keep(id, "x", meant("f", 1))
		if _, ok := s.store.Find(id, all); !ok {
			t.Fatalf("%s is not found", id)
		}
		s.must(os.RemoveAll(filepath.Join(s.dir, id)))
	}
	if n := len(s.store.known); n > fewKnown+1 {
		t.Errorf("%d entries are known, and none is there", n)
	}
}

// Many entries that are there are all known, and the store is not read again for each.
func TestManyAreKnown(t *testing.T) {
	s := newStage(t)
	const n = fewKnown + fewKnown/2
	for i := range n {
		id := fmt.Sprintf("20260102T030405.%09d-00000000", i)
		s.keep(id, "x", meant("f", 1))
	}
	s.list(all)
	if len(s.store.known) != n || s.store.most < 2*fewKnown {
		t.Errorf("%d of %d entries are known, and up to %d may be", len(s.store.known), n, s.store.most)
	}
}
