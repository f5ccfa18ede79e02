package fs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// nameless makes a file without a name, as open(2) does with O_TMPFILE.
func (r *requests) nameless(text string) (id, fh uint64) {
	r.t.Helper()
	var made Created
	in := CreateRequest{OpenRequest: OpenRequest{Request: r.header(rootID), Flags: unix.O_RDWR}, Mode: unix.S_IFREG | 0o600}
	if e := r.f.opens.Tmpfile(nil, &in, &made); e != 0 {
		r.t.Fatal(e)
	}
	r.write(made.Node, made.Handle, 0, text)
	return made.Node, made.Handle
}

func (r *requests) link(id uint64, name string) {
	r.t.Helper()
	var out Entry
	if e := r.f.entries.Link(nil, &LinkRequest{Request: r.header(rootID), Target: id}, name, &out); e != 0 {
		r.t.Fatalf("the link of %s: %v", name, e)
	}
}

func (r *requests) rename(from, to string) {
	r.t.Helper()
	if e := r.f.entries.Rename(nil, &RenameRequest{Request: r.header(rootID), NewDir: rootID}, from, to); e != 0 {
		r.t.Fatalf("the rename of %s: %v", from, e)
	}
}

// wantOrdinary wants that f is no live file, and that the version which is known of it is
// what it holds.
func (r *requests) wantOrdinary(when string) {
	r.t.Helper()
	if by := r.f.nodes.liveBy("f"); by != notLive {
		r.t.Errorf("%s: f is live still (%v)", when, by)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(r.f.nodes.fdOf(r.f.kernel.inodeOf(rootID)), "f", &st, 0); err != nil {
		r.t.Fatal(err)
	}
	if number, stamp := r.f.rules.knowledge.Current("f"); number != 0 && stamp != stampOfFile(&st) {
		r.t.Errorf("%s: f is known as %+v, and is %+v", when, stamp, stampOfFile(&st))
	}
}

// A program saves with O_TMPFILE, linkat and a rename, and saves again before the kernel has
// told that its first descriptor is closed: both are its own work, and the second is known.
func TestSavedTwiceBeforeTheRelease(t *testing.T) {
	r := newRequestsUnder(t, "wait = \"500ms\"\n")
	first, fh1 := r.nameless("one")
	r.link(first, "f.new")
	r.flush(first, fh1)
	r.rename("f.new", "f")
	r.f.rules.knowledge.Track("f", r.stampOf("f")) // somebody reads it

	second, fh2 := r.nameless("second")
	r.link(second, "f.new")
	r.flush(second, fh2)
	r.rename("f.new", "f")
	r.release(first, fh1)
	r.release(second, fh2)
	r.wantOrdinary("after both are closed")
}

func (r *requests) stampOf(name string) knowledge.Stamp {
	r.t.Helper()
	var st unix.Stat_t
	if err := unix.Fstatat(r.f.nodes.fdOf(r.f.kernel.inodeOf(rootID)), name, &st, 0); err != nil {
		r.t.Fatal(err)
	}
	return stampOfFile(&st)
}

// The last live descriptor is closed between the two steps of a rename: that of the file, and
// that of what is known of its name. The new name does not stay live.
func TestClosedWhileItIsRenamed(t *testing.T) {
	r := newRequestsUnder(t, "wait = \"500ms\"\n")
	id, fh := r.nameless("one")
	r.link(id, "f")
	r.flush(id, fh)
	n := r.f.kernel.inodeOf(id)
	r.release(id, fh)
	r.wantOrdinary("after the close")
	r.f.nodes.mu.Lock()
	r.f.nodes.setLiveLocked(n.dentry, liveByHandle) // it comes with the name that the file had
	r.f.nodes.mu.Unlock()
	r.f.live.carryLive(n, "f")
	r.wantOrdinary("after the rename")
}

// An open has found a live file, and before it has its descriptor the last other one is closed:
// the file is live by this one then, and an ordinary one after its close.
func TestOpenedLiveAtTheLastClose(t *testing.T) {
	r := newRequestsUnder(t, "wait = \"500ms\"\n")
	id, fh := r.nameless("one")
	r.link(id, "f")
	r.f.rules.knowledge.Track("f", r.stampOf("f"))
	other, e := r.open(r.lookup("f"), unix.O_RDWR)
	if e != 0 {
		t.Fatal(e)
	}
	r.f.nodes.mu.Lock()
	h := r.f.handles.open[other]
	live := h.live
	h.live = false
	h.n.liveWriters--
	r.f.nodes.mu.Unlock()
	if !live {
		t.Fatal("the second descriptor is not live")
	}
	r.release(id, fh)
	r.wantOrdinary("after the first close")
	r.f.live.setLive(h)
	if by := r.f.nodes.liveBy("f"); by != liveByHandle {
		t.Errorf("f has a live descriptor, and is live by %v", by)
	}
	r.write(id, other, 0, "longer")
	r.release(id, other)
	r.wantOrdinary("after the second close")
}

// The number of an inode comes again when the file is gone that had it. What was known of that
// file under all its names is not known of one that has just been made without a name.
func TestFirstNameKnowsNothingOfTheInodeBefore(t *testing.T) {
	r := newRequestsUnder(t, "wait = \"500ms\"\n")
	id, fh := r.nameless("one")
	var st unix.Stat_t
	if err := unix.Fstat(r.f.nodes.fdOf(r.f.kernel.inodeOf(id)), &st); err != nil {
		t.Fatal(err)
	}
	before := stampOfFile(&st)
	before.Size = 1000
	r.f.rules.knowledge.Saw(time.Now(), lostupdate.LinkKey(before), before, knowledge.Who{Self: lockmgr.Owner{PID: 1, Start: 1}})
	r.link(id, "f")
	if r.f.rules.knowledge.Tracks(lostupdate.LinkKey(before)) {
		t.Error("f is known as the file that had its inode before")
	}
	r.release(id, fh)
}
