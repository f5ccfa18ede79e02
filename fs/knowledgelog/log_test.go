package knowledgelog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

const (
	boot = "this life"
	fade = 10 * time.Minute
)

var now = time.Unix(1000, 0)

func reader(pid int) lockmgr.Owner { return lockmgr.Owner{PID: int32(pid), Start: 1} }

// note makes a process know the first version of a file, and somebody else the author of
// the second.
func note(table *knowledge.Table, key knowledge.Key, pid int) {
	table.Saw(now, key, knowledge.Stamp{Ino: 1}, knowledge.Who{Self: reader(pid)})
	table.Changed(now, key, knowledge.Stamp{Ino: 2}, knowledge.Who{Self: reader(9999)}, knowledge.Author{Program: "other"})
}

// isKnown reports whether that was remembered.
func isKnown(table *knowledge.Table, key knowledge.Key, pid int) bool {
	b := table.Check(now, key, knowledge.Stamp{Ino: 2}, []lockmgr.Owner{reader(pid)}, fade, knowledge.Readers)
	return b.Stale && b.Newer.Author.Program == "other"
}

// state is a state directory with what was told of it.
type state struct {
	t    *testing.T
	dir  *os.File
	told []string
}

func newState(t *testing.T) *state {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return &state{t: t, dir: dir}
}

func (s *state) path(name string) string { return filepath.Join(s.dir.Name(), name) }

func (s *state) open(boot string) (*Log, *knowledge.Table) {
	s.told = nil
	table := knowledge.New(fade)
	return Open(s.dir, boot, table, func(format string, args ...any) { s.told = append(s.told, fmt.Sprintf(format, args...)) }), table
}

func (s *state) write(l *Log) {
	s.t.Helper()
	if err := l.Write(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *state) put(name string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *state) size(name string) int64 {
	s.t.Helper()
	st, err := os.Stat(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return st.Size()
}

// The log grows by what is new, and one of another life of the machine is begun anew.
func TestGrows(t *testing.T) {
	s := newState(t)
	l, table := s.open(boot)
	for i := range 1000 {
		note(table, knowledge.Key(fmt.Sprintf("dir/file%d", i)), i+1)
	}
	s.write(l)
	before := s.size(Name)
	note(table, "new", 7)
	s.write(l)
	if by := s.size(Name) - before; by <= 0 || by > 200 {
		t.Errorf("one file more made the log %d bytes longer", by)
	}
	if per := before / 1000; per > 100 {
		t.Errorf("%d bytes for each file", per)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, table = s.open(boot)
	for i := range 1000 {
		if !isKnown(table, knowledge.Key(fmt.Sprintf("dir/file%d", i)), i+1) {
			t.Fatalf("file %d is forgotten", i)
		}
	}
	if !isKnown(table, "new", 7) || len(s.told) > 0 {
		t.Errorf("what was written last is forgotten: %q", s.told)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, table = s.open("another life")
	if keys, _ := table.Size(); keys != 0 {
		t.Errorf("%d files are known to processes of before the boot", keys)
	}
	if err := l.Close(); err != nil || len(s.told) > 0 {
		t.Errorf("%v, %q", err, s.told)
	}
}

// The log's length goes by what is known, and not by what has happened.
func TestIsBegunAnew(t *testing.T) {
	s := newState(t)
	l, table := s.open(boot)
	for i := range 40 {
		for j := range 1000 {
			key := knowledge.Key(fmt.Sprintf("temporary file %d of round %d", j, i))
			note(table, key, 7)
			if i > 0 {
				table.Forget(knowledge.Key(fmt.Sprintf("temporary file %d of round %d", j, i-1)))
			}
		}
		s.write(l)
		if size, most := s.size(Name), 2*table.Live()+growth+1<<20; size > most {
			t.Fatalf("after round %d the log has %d bytes, and %d count", i, size, table.Live())
		}
	}
	for i := range 1000 {
		table.Forget(knowledge.Key(fmt.Sprintf("temporary file %d of round 39", i)))
	}
	s.write(l)
	if size := s.size(Name); table.Live() != 0 || size > growth {
		t.Errorf("nothing is known any more, %d bytes count, and the log has %d", table.Live(), size)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A crash ends the log at any byte: what was whole before is known, and a mount begins.
func TestTailIsCutAtEveryByte(t *testing.T) {
	s := newState(t)
	l, table := s.open(boot)
	var ends []int64
	for i := range 3 {
		note(table, knowledge.Key(fmt.Sprint("f", i)), i+1)
		s.write(l)
		ends = append(ends, s.size(Name))
	}
	whole, err := os.ReadFile(s.path(Name))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if n > 20 && int64(n) < ends[0]-1 {
			continue // as in the records after the first
		}
		s.put(Name, whole[:n])
		l, table := s.open(boot)
		for i, end := range ends {
			if got, want := isKnown(table, knowledge.Key(fmt.Sprint("f", i)), i+1), end <= int64(n); got != want {
				t.Fatalf("of %d bytes, f%d is known: %v, want %v: %q", n, i, got, want, s.told)
			}
		}
		atEnd := n == 0 || n == 16
		for _, end := range ends {
			atEnd = atEnd || int64(n) == end
		}
		if n > 16 && atEnd == (len(s.told) > 0) {
			t.Fatalf("of %d bytes was told %q", n, s.told)
		}
		note(table, "after", 5)
		s.write(l)
		if _, table = s.open(boot); !isKnown(table, "after", 5) {
			t.Fatalf("of %d bytes: what was written after it is forgotten: %q", n, s.told)
		}
	}
}

// Damage anywhere costs what is behind it, is told of, and keeps nobody from going on.
func TestDamage(t *testing.T) {
	s := newState(t)
	l, table := s.open(boot)
	var ends []int64
	for i := range 3 {
		note(table, knowledge.Key(fmt.Sprint("f", i)), i+1)
		s.write(l)
		ends = append(ends, s.size(Name))
	}
	whole, err := os.ReadFile(s.path(Name))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 7 {
		damaged := append([]byte{}, whole...)
		damaged[at] ^= 0x41
		s.put(Name, damaged)
		_ = os.Remove(s.path(Name + broken))
		l, table := s.open(boot)
		if len(s.told) != 1 || !strings.HasPrefix(s.told[0], Name+": ") {
			t.Fatalf("of damage at byte %d was told %q", at, s.told)
		}
		for i, end := range ends {
			if got, want := isKnown(table, knowledge.Key(fmt.Sprint("f", i)), i+1), end <= int64(at); got != want {
				t.Fatalf("damage at byte %d: f%d is known: %v, want %v", at, i, got, want)
			}
		}
		note(table, "after", 5)
		s.write(l)
		_, table = s.open(boot)
		if !isKnown(table, "after", 5) || len(s.told) > 0 {
			t.Fatalf("damage at byte %d: what was written after it is forgotten: %q", at, s.told)
		}
		if isKnown(table, "f0", 1) != (int64(at) >= ends[0]) {
			t.Fatalf("damage at byte %d: f0 was not taken into the new log", at)
		}
	}
	s.size(Name + broken) // the last one was set aside
}

// What an earlier release has written whole is taken over once, whatever a log says.
func TestOldFile(t *testing.T) {
	const old = `{"format":3,"boot":"this life","files":[{"key":"Zg==","changes":[` +
		`{"number":1,"stamp":{"ino":1},"author":{"time":"0001-01-01T00:00:00Z"}},` +
		`{"number":2,"stamp":{"ino":2},"author":{"program":"other","time":"1970-01-01T00:16:40Z"}}],` +
		`"facts":[{"owner":{"PID":3,"Start":1},"own":{"number":1,"through":1,"at":"1970-01-01T00:16:40Z"}}]}]}`
	s := newState(t)
	l, table := s.open(boot)
	note(table, "g", 4)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i, data := range []string{old, strings.Replace(old, "this life", "another", 1), "{}", "torn"} {
		s.put(oldName, []byte(data))
		l, table := s.open(boot)
		if got := isKnown(table, "f", 3); got != (i == 0) {
			t.Errorf("%.20s: f is known: %v", data, got)
		}
		if told := len(s.told) > 0; told != (i > 1) {
			t.Errorf("%.20s: %q", data, s.told)
		}
		if i == 0 && isKnown(table, "g", 4) {
			t.Error("the log counts, although an earlier release has run since")
		}
		s.write(l)
		if _, err := os.Stat(s.path(oldName)); err == nil {
			t.Errorf("%.20s: the old file is there still", data)
		}
		if _, table = s.open(boot); i == 0 && !isKnown(table, "f", 3) {
			t.Error("what was taken over is not in the log")
		}
	}
}

// Something under the log's name that is not ours is set aside; and where that is not
// possible, the next write tells of it and the one after that tries again.
func TestForeignFile(t *testing.T) {
	s := newState(t)
	if err := os.Symlink("/dev/null", s.path(Name)); err != nil {
		t.Fatal(err)
	}
	l, table := s.open(boot)
	note(table, "f", 1)
	s.write(l)
	if _, table = s.open(boot); !isKnown(table, "f", 1) {
		t.Errorf("f is forgotten: %q", s.told)
	}
	for _, name := range []string{Name, Name + broken} {
		_ = os.Remove(s.path(name))
		if err := os.MkdirAll(s.path(name+"/full"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, table = s.open(boot)
	note(table, "f", 1)
	if err := l.Write(); err == nil {
		t.Error("a directory took the log")
	}
	if err := os.RemoveAll(s.path(Name)); err != nil {
		t.Fatal(err)
	}
	s.write(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, table = s.open(boot); !isKnown(table, "f", 1) {
		t.Errorf("f is forgotten: %q", s.told)
	}
}

// A path that is longer than a record may be is not remembered, and all others are.
func TestPathThatIsTooLong(t *testing.T) {
	s := newState(t)
	l, table := s.open(boot)
	note(table, "f", 7)
	note(table, knowledge.Key(strings.Repeat("x", 1100000)), 7)
	for range 2 {
		if err := l.Write(); err != nil {
			t.Error(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, table := s.open(boot); !isKnown(table, "f", 7) || len(s.told) > 0 {
		t.Errorf("what was read is forgotten; told %q", s.told)
	}
}
