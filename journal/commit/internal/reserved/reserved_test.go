package reserved

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// place is a data root with a journal.
type place struct {
	t     *testing.T
	root  string
	state *os.File
	disk  *disk.Disk
	steps []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, root: t.TempDir()}
	for _, dir := range []string{disk.StateDirName, "a", "b"} {
		check(t, os.Mkdir(filepath.Join(p.root, dir), 0o700))
	}
	p.state = open(t, filepath.Join(p.root, disk.StateDirName), os.O_RDONLY)
	root := open(t, p.root, os.O_RDONLY)
	p.disk = disk.New(int(root.Fd()), p.state, openJournal(t, p.state))
	p.failAt("")
	return p
}

func openJournal(t *testing.T, dir *os.File) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{Logf: t.Logf})
	check(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// failAt lets each change to the disk fail whose name is step.
func (p *place) failAt(step string) {
	p.disk.Fault = func(s string) error {
		p.steps = append(p.steps, s)
		if s == step {
			return unix.EIO
		}
		return nil
	}
}

// dir opens a directory.
func (p *place) dir(name string) int {
	return int(open(p.t, filepath.Join(p.root, name), os.O_RDONLY).Fd())
}

// file makes a file without a name, and returns its descriptor and its inode.
func (p *place) file() (fd int, ino uint64) {
	p.t.Helper()
	f := open(p.t, p.root, unix.O_TMPFILE|os.O_RDWR)
	var st unix.Stat_t
	check(p.t, unix.Fstat(int(f.Fd()), &st))
	return int(f.Fd()), st.Ino
}

// names are the reserved names on the disk, each after its directory.
func (p *place) names() (names []string) {
	p.t.Helper()
	for _, dir := range []string{"a", "b"} {
		entries, err := os.ReadDir(filepath.Join(p.root, dir))
		check(p.t, err)
		for _, e := range entries {
			names = append(names, dir+"/"+e.Name())
		}
	}
	return names
}

// pending are the intents that a start after a crash finds.
func (p *place) pending() []journal.Intent {
	p.t.Helper()
	copied := filepath.Join(p.t.TempDir(), "state")
	check(p.t, os.CopyFS(copied, os.DirFS(p.state.Name())))
	return openJournal(p.t, open(p.t, copied, os.O_RDONLY)).Pending()
}

// expect compares what is on the disk, and what a start after a crash would find, with a name.
func (p *place) expect(when string, n *Name) {
	p.t.Helper()
	var names []string
	var pending []journal.Intent
	if n.Stands() {
		in := n.Intent()
		names, pending = []string{in.ShadowDir + "/" + in.Shadow}, []journal.Intent{in}
		if !p.disk.NameInUse(in.Shadow) {
			p.t.Errorf("%s: the name is not in use", when)
		}
	} else if used := p.disk.NamesInUse(); len(used) > 0 || n.Dir() != -1 {
		p.t.Errorf("%s: in use are %q, and the directory is %d", when, used, n.Dir())
	}
	if got := p.names(); !slices.Equal(got, names) {
		p.t.Errorf("%s: names %q, and not %q", when, got, names)
	}
	if got := p.pending(); !slices.Equal(got, pending) {
		p.t.Errorf("%s: pending %+v, and not %+v", when, got, pending)
	}
}

func intent(dir string) journal.Intent {
	return journal.Intent{Kind: journal.KindShadow, Dir: dir, Name: "f", ShadowDir: dir}
}

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o600)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestANameAndItsIntentComeAndGoTogether(t *testing.T) {
	p := newPlace(t)
	fd, ino := p.file()
	n := New(p.disk)
	p.expect("before", &n)
	check(t, n.Link(fd, p.dir("a"), intent("a")))
	p.expect("linked", &n)
	check(t, n.Retag(journal.Intent{Kind: journal.KindReplace, Name: "g"}, ino))
	if in := n.Intent(); in.Kind != journal.KindReplace || in.Name != "g" || in.ShadowDir != "a" || in.Synced || in.ShadowIno != 0 {
		t.Errorf("the other intent is %+v", in)
	}
	p.expect("with another intent", &n)
	check(t, n.Drop())
	p.expect("dropped", &n)
	check(t, errors.Join(n.Drop(), n.Gone()))
	n.LeaveToRecovery()
	p.expect("dropped again", &n)
}

// An intent comes before its name, and goes after it, wherever an error stops that: no name is an
// orphan.
func TestNoNameWithoutAnIntent(t *testing.T) {
	fails := map[string]func(p *place, n *Name, fd int, ino uint64) error{
		"link":   func(p *place, n *Name, fd int, _ uint64) error { return n.Link(fd, p.dir("a"), intent("a")) },
		"move":   func(p *place, n *Name, fd int, ino uint64) error { return n.MoveTo(p.dir("b"), intent("b"), fd, ino) },
		"retag":  func(_ *place, n *Name, _ int, ino uint64) error { return n.Retag(intent("a"), ino) },
		"drop":   func(_ *place, n *Name, _ int, _ uint64) error { return n.Drop() },
		"synced": func(p *place, n *Name, fd int, ino uint64) error { return n.MoveTo(p.dir("b"), intent("b"), fd, ino) },
	}
	for what, do := range fails {
		seen := 0
		for _, step := range []string{"begin", "link", "rename", "unlink", "done", "syncjournal", "syncdir"} {
			p := newPlace(t)
			fd, ino := p.file()
			n := New(p.disk)
			in := intent("a")
			in.Synced = what == "synced"
			if what != "link" {
				check(t, n.Link(fd, p.dir("a"), in))
			}
			p.steps = nil
			p.failAt(step)
			err := do(p, &n, fd, ino)
			tried := slices.Contains(p.steps, step)
			if tried != (err != nil) {
				t.Errorf("%s, %s fails: %v after %q", what, step, err, p.steps)
			}
			if tried {
				seen++
			}
			known := map[string]bool{}
			for _, in := range p.pending() {
				known[in.ShadowDir+"/"+in.Shadow] = true
				replaced := what == "retag" && step == "done" // the next start ends it
				if in.ID != n.Intent().ID && !p.disk.IsAbandoned(in) && !replaced {
					t.Errorf("%s, %s fails: nobody ends %+v", what, step, in)
				}
			}
			if used := p.disk.NamesInUse(); len(used) > 1 || len(used) == 1 && used[0] != n.Intent().Shadow {
				t.Errorf("%s, %s fails: in use are %q", what, step, used)
			}
			for _, name := range p.names() {
				if !known[name] {
					t.Errorf("%s, %s fails: %s is an orphan", what, step, name)
				}
			}
			if n.Stands() && !slices.Contains(p.names(), n.Intent().ShadowDir+"/"+n.Intent().Shadow) {
				t.Errorf("%s, %s fails: the name seems to stand", what, step)
			}
		}
		if seen < 2 {
			t.Errorf("%s: %d steps", what, seen)
		}
	}
}

// What was synced is so under each later name and intent, until Replace says otherwise.
func TestWhatWasSyncedStaysSo(t *testing.T) {
	p := newPlace(t)
	fd, ino := p.file()
	n := New(p.disk)
	in := intent("a")
	in.Synced = true
	check(t, n.Link(fd, p.dir("a"), in))
	check(t, n.Retag(intent("a"), ino))
	if in := n.Intent(); !in.Synced || in.ShadowIno != ino {
		t.Errorf("after Retag: %+v", in)
	}
	p.steps = nil
	check(t, n.MoveTo(p.dir("b"), intent("b"), fd, ino))
	if in := n.Intent(); !in.Synced || in.ShadowIno != ino || in.ShadowDir != "b" {
		t.Errorf("after MoveTo: %+v", in)
	}
	// The journal knows the new name before the disk, and the old one until the disk has the new.
	if want := []string{"begin", "syncjournal", "rename", "syncdir", "done"}; !slices.Equal(p.steps, want) {
		t.Errorf("steps %q", p.steps)
	}
	p.expect("moved", &n)
	n.Renamed("c")
	check(t, n.Replace(intent("b")))
	if in := n.Intent(); in.Synced || in.ShadowDir != "c" {
		t.Errorf("after Replace: %+v", in)
	}
}

// What cannot be removed is a recovery's, which knows whether anybody wants it.
func TestWhatIsLeftToARecovery(t *testing.T) {
	for what, leave := range map[string]func(p *place, n *Name) error{
		"dropped": func(p *place, n *Name) error { p.failAt("unlink"); return n.Drop() },
		"left":    func(_ *place, n *Name) error { n.LeaveToRecovery(); return unix.EIO },
	} {
		p := newPlace(t)
		fd, _ := p.file()
		n := New(p.disk)
		in := intent("a")
		in.Synced, in.Appears = true, true
		check(t, n.Link(fd, p.dir("a"), in))
		if err := leave(p, &n); !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v", what, err)
		}
		left := p.disk.Pending()
		if n.Stands() || n.Dir() != -1 || len(left) != 1 || left[0].Synced != (what == "left") || left[0].Appears || !p.disk.IsAbandoned(left[0]) {
			t.Errorf("%s: stands %v, %+v", what, n.Stands(), left)
		}
		if used := p.disk.NamesInUse(); len(used) > 0 || !p.disk.NameInUse(left[0].Shadow) {
			t.Errorf("%s: in use are %q", what, used)
		}
	}
}

// Somebody else has the name after HandOver: it stays claimed.
func TestHandOver(t *testing.T) {
	p := newPlace(t)
	fd, _ := p.file()
	n := New(p.disk)
	check(t, n.Link(fd, p.dir("a"), intent("a")))
	in := n.Intent()
	n.HandOver()
	if used := p.disk.NamesInUse(); n.Stands() || !slices.Equal(used, []string{in.Shadow}) || len(p.disk.Pending()) > 0 {
		t.Errorf("in use are %q, pending %+v", used, p.disk.Pending())
	}
}

// A borrowed descriptor is the caller's: after Own the name has another one.
func TestBorrowedDirectory(t *testing.T) {
	p := newPlace(t)
	fd, _ := p.file()
	n := New(p.disk)
	dir, err := unix.Open(filepath.Join(p.root, "a"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	n.Borrow()
	check(t, n.Link(fd, dir, intent("a")))
	if n.Dir() != dir {
		t.Error("the descriptor is not borrowed")
	}
	n.Own()
	if n.Dir() == dir || n.Dir() < 0 {
		t.Errorf("after Own the directory is %d, as the caller's %d", n.Dir(), dir)
	}
	check(t, unix.Close(dir))
	p.expect("owned", &n)
	check(t, n.Drop())
	p.expect("dropped", &n)
	another, _ := p.file()
	dir, err = unix.Open(filepath.Join(p.root, "a"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	n.Borrow()
	check(t, n.Link(another, dir, intent("a")))
	check(t, n.Drop())
	n.Own()
	check(t, unix.Close(dir)) // still the caller's
	third, _ := p.file()
	check(t, n.Link(third, p.dir("a"), intent("a")))
	if own := p.dir("a"); n.Dir() == own || n.borrowed {
		t.Error("after Own a descriptor is borrowed")
	}
}

// What is announced is known to the journal alone; Adopt makes it the name.
func TestAnnounced(t *testing.T) {
	p := newPlace(t)
	fd, _ := p.file()
	var none *Announced
	check(t, none.Drop())
	a, err := Announce(p.disk, intent("a"))
	check(t, err)
	if got := p.pending(); len(p.names()) > 0 || !slices.Equal(got, []journal.Intent{a.Intent()}) || a.IsWritten() {
		t.Errorf("announced: names %q, pending %+v, written %v", p.names(), got, a.IsWritten())
	}
	p.failAt("writejournal")
	if err := a.WriteBack(fd); !errors.Is(err, unix.EIO) || a.IsWritten() {
		t.Errorf("written %v, %v", a.IsWritten(), err)
	}
	p.failAt("")
	check(t, a.WriteBack(fd))
	n := New(p.disk)
	if err := n.Adopt(a, -1); err == nil || n.Stands() {
		t.Errorf("adopted where there is no directory: %v", err)
	}
	check(t, n.Adopt(a, p.dir("a")))
	check(t, n.Give(fd))
	if n.Intent() != a.Intent() || !a.IsWritten() {
		t.Errorf("adopted %+v, written %v", n.Intent(), a.IsWritten())
	}
	p.expect("adopted", &n)
	check(t, n.Drop())
	a, err = Announce(p.disk, intent("a"))
	check(t, err)
	check(t, a.Drop())
	p.expect("announced and not needed", &n)
	b, err := Announce(p.disk, intent("a"))
	check(t, err)
	p.failAt("done")
	if err := b.Drop(); !errors.Is(err, unix.EIO) || !p.disk.IsAbandoned(b.Intent()) {
		t.Errorf("dropped: %v, and left to a recovery %v", err, p.disk.IsAbandoned(b.Intent()))
	}
	p.failAt("")
	check(t, p.disk.Finish(b.Intent()))
	p.failAt("begin")
	if _, err := Announce(p.disk, intent("a")); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
	p.expect("not announced", &n)
}
