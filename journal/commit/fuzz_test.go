package commit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segmentOf makes a segment of the journal with these records; see the package
// comment of journal.
func segmentOf(records [][]byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("latchjnl"), 1)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	for _, r := range records {
		at := len(b)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r)))
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(r, castagnoli))
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
		b = append(b, r...)
	}
	return b
}

// recordsOf takes a segment apart again.
func recordsOf(segment []byte) (records [][]byte) {
	for b := segment[16:]; len(b) >= 20; {
		n := 20 + int(binary.LittleEndian.Uint32(b))
		records = append(records, b[20:n])
		b = b[n:]
	}
	return records
}

// segment is the journal's only file.
func (w *world) segment() (path string, data []byte) {
	w.t.Helper()
	found, err := filepath.Glob(w.path(disk.StateDirName + "/journal-*"))
	check(w.t, err)
	if len(found) != 1 {
		w.t.Fatalf("segments %q", found)
	}
	data, err = os.ReadFile(found[0])
	check(w.t, err)
	return found[0], data
}

// names are all names below the data root that are not latchfs's.
func (w *world) names() map[string]bool {
	w.t.Helper()
	names := map[string]bool{}
	check(w.t, filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == disk.StateDirName:
			return filepath.SkipDir
		case !disk.Generated(d.Name()):
			names[path] = true
		}
		return nil
	}))
	return names
}

// unfinished makes a world with everything that can be pending, and crashes.
func unfinished(t testing.TB, root string) *world {
	t.Helper()
	w := newWorld(t, root)
	for _, name := range []string{"d/f", "d/g", "e/f"} {
		w.write(name, "old")
	}
	w.halfWritten("d/g")
	w.s.disk.Fault = nil
	begin := func(in journal.Intent) {
		_, err := w.j.Begin(in)
		check(t, err)
	}
	shadow := func(c string) string { return disk.ReservedPrefix + strings.Repeat(c, 32) }
	for _, name := range []string{"d/" + shadow("1"), "d/" + shadow("2"), "d/" + shadow("3")} {
		w.write(name, "new")
	}
	begin(journal.Intent{Kind: journal.KindShadow, Dir: "d", Name: "f", ShadowDir: "d", Shadow: shadow("1")})
	begin(journal.Intent{Kind: journal.KindReplace, Dir: "d", Name: "f", ShadowDir: "d", Shadow: shadow("2"), TargetIno: w.stat("d/f").Ino})
	begin(journal.Intent{Kind: journal.KindReplace, Txn: 3, Dir: "d", Name: "f", ShadowDir: "d", Shadow: shadow("3")})
	begin(journal.Intent{Kind: journal.KindMade, Txn: 4, Dir: "e", Name: "f", ShadowDir: "e"})
	begin(journal.Intent{Kind: journal.KindTxn, Txn: 3})
	st := w.stat("e/f")
	begin(journal.Intent{Kind: journal.KindAppend, Dir: "e", Name: "f", ShadowDir: "e", TargetDev: uint64(st.Dev), TargetIno: st.Ino,
		TargetBirth: disk.Birth(int(openFile(t, w.path("e/f"), os.O_RDONLY).Fd())), Size: 1})
	return w
}

// FuzzRecover gives a data root any journal: it is refused and nothing is changed,
// or it is obeyed as far as it is plausible. In no case is anything gone that has
// another name than latchfs's own, unless the journal knows its inode; and a
// repair always ends with a directory that a mount goes on with.
func FuzzRecover(f *testing.F) {
	root, err := os.MkdirTemp(filesystems["tmp"], "fuzz-")
	check(f, err)
	_, real := unfinished(f, root).segment()
	records := recordsOf(real)
	f.Add(bytes.Join(records, []byte("\n")), false)
	f.Add(real, true)
	f.Add(real[:len(real)-30], true)
	flipped := bytes.Clone(real)
	flipped[len(flipped)/3] ^= 4
	f.Add(flipped, true)
	for _, in := range []string{
		`"kind":"replace","dir":"d","name":"x","shadow":"f"`, `"kind":"shadow","dir":"..","name":"x","shadow":".latchfs-00000000000000000000000000000000"`,
		`"kind":"replace","dir":"d","name":"f","shadow":".latchfs-11111111111111111111111111111111","keep":"x"`,
		`"kind":"made","dir":"","name":"d","shadow":"","txn":1`, `"kind":"inplace","dir":"d","name":"f","shadow":"../e/f"`,
	} {
		f.Add([]byte(`{"op":"start","next":1}`+"\n"+`{"op":"begin","id":1,"intent":{`+in+`}}`), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		root, err := os.MkdirTemp(filesystems["tmp"], "fuzz-")
		check(t, err)
		defer os.RemoveAll(root)
		w := unfinished(t, root)
		w.stop()
		path, _ := w.segment()
		if !raw {
			data = segmentOf(bytes.Split(data, []byte("\n")))
		}
		check(t, os.WriteFile(path, data, 0o600))
		names, before := w.names(), w.everything()
		w.obey(before)
		for name := range names {
			if _, err := os.Lstat(name); err != nil && !errors.Is(err, unix.ENAMETOOLONG) {
				t.Errorf("%v, and no recovery removes such names", err)
			}
		}
	})
}

// obey is a mount; if it refuses, a repair and a mount.
func (w *world) obey(before map[string]string) {
	w.t.Helper()
	w.check()
	j, err := journal.Open(w.state, journal.Options{})
	if err != nil {
		after := w.everything()
		for name := range after {
			if before[name] != after[name] && filepath.Base(name) != "events.jsonl" {
				w.t.Fatalf("refused (%v), and %q has changed", err, name)
			}
		}
	} else {
		w.j, w.s = j, NewStore(int(w.dir.Fd()), w.state, j)
		_, err = w.s.Recover()
		if err == nil {
			_, err = w.s.Sweep(context.Background())
		}
		j.Close()
	}
	if err == nil {
		return
	}
	c := w.check()
	findings, err := c.Repair(w.t.Context(), w.t.Logf)
	if err != nil && !strings.Contains(err.Error(), "intent of unknown kind") {
		w.t.Fatalf("no repair of %q: %v", found(findings), err)
	}
}
