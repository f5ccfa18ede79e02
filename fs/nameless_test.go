package fs

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/mounts"
	"latchfs/lockmgr/policy"
)

// requests sends the requests of one thread to a mounted filesystem as the kernel does,
// and in an order that the kernel leaves to chance.
type requests struct {
	t    *testing.T
	f    *FS
	data string
	tid  uint32
}

func newRequests(t *testing.T) *requests {
	// One thread stands for all processes, so that it must not matter who has read what.
	return newRequestsUnder(t, "lost-update = \"off\"\nwait = \"500ms\"\n")
}

// newRequestsUnder is newRequests with these defaults of the policy.
func newRequestsUnder(t *testing.T, defaults string) *requests {
	data, at := t.TempDir(), t.TempDir()
	rules, err := policy.Parse("test", []byte("[defaults]\n"+defaults))
	if err != nil {
		t.Fatal(err)
	}
	f, m := mounted(t, Options{Dir: data, Mountpoint: at, Policy: rules, Log: quiet{}})
	runtime.LockOSThread()
	t.Cleanup(func() {
		runtime.UnlockOSThread()
		_ = mounts.Detach(at)
		_ = m.Wait()
	})
	return &requests{t: t, f: f, data: data, tid: uint32(unix.Gettid())}
}

func (r *requests) lookup(name string) uint64 {
	r.t.Helper()
	var out Entry
	h := r.header(rootID)
	if st := r.f.opens.Lookup(nil, &h, name, &out); st != 0 || out.Node == 0 {
		r.t.Fatalf("lookup of %s: %v", name, st)
	}
	return out.Node
}

func (r *requests) open(id uint64, flags uint32) (uint64, unix.Errno) {
	var out Opened
	in := OpenRequest{Request: r.header(id), Flags: flags}
	st := r.f.opens.Open(nil, &in, &out)
	return out.Handle, st
}

// replace puts another file in f's place, as a save does.
func (r *requests) replace(content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.data, "new"), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(r.data, "new"), filepath.Join(r.data, "f")); err != nil {
		r.t.Fatal(err)
	}
}

// holds is what a reader of a node reads.
func (r *requests) holds(id uint64) string {
	r.t.Helper()
	fd, err := r.f.handles.reopen(r.f.nodes.fdOf(r.f.kernel.inodeOf(id)), unix.O_RDONLY)
	if err != nil {
		r.t.Fatal(err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 100)
	n, err := unix.Read(fd, buf)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(buf[:n])
}

// An open with O_TRUNC that has found a file by its name does not cut it when it has
// lost the name meanwhile: others have it open.
func TestTruncatingOpenOfAReplacedFile(t *testing.T) {
	r := newRequests(t)
	r.replace("one")
	first := r.lookup("f")
	if _, st := r.open(first, unix.O_RDONLY); st != 0 {
		t.Fatal(st)
	}
	if _, st := r.open(first, unix.O_WRONLY|unix.O_TRUNC); st != unix.ESTALE {
		t.Fatalf("the first walk: %v, want ESTALE", st)
	}
	// Its session ends before the second walk.
	running := r.f.nodes.sessionAt(r.f.kernel.inodeOf(rootID), "f")
	r.f.locks.fence(running)
	r.replace("two")
	second := r.lookup("f")
	if _, st := r.open(second, unix.O_RDONLY); st != 0 {
		t.Fatal(st)
	}
	r.replace("three")
	// It cannot be sent on twice, and this node is a reader's.
	if _, st := r.open(second, unix.O_WRONLY|unix.O_TRUNC); st != unix.EBUSY {
		t.Errorf("the second walk: %v, want EBUSY", st)
	}
	if got := r.holds(second); got != "two" {
		t.Errorf("a reader of the replaced file reads %q", got)
	}
}

// Through a descriptor a file without a name is cut as anywhere else.
func TestTruncatingOpenOfANamelessFile(t *testing.T) {
	r := newRequests(t)
	r.replace("one")
	id := r.lookup("f")
	if _, st := r.open(id, unix.O_RDONLY); st != 0 {
		t.Fatal(st)
	}
	r.replace("two")
	if _, st := r.open(id, unix.O_WRONLY|unix.O_TRUNC); st != unix.ESTALE {
		t.Fatalf("the first walk: %v, want ESTALE", st)
	}
	if _, st := r.open(id, unix.O_WRONLY|unix.O_TRUNC); st != 0 {
		t.Fatalf("the second walk: %v", st)
	}
	if got := r.holds(id); got != "" {
		t.Errorf("the file holds %q", got)
	}
}

// close closes the only descriptor of an open: the kernel sends RELEASE when close has
// returned.
func (r *requests) close(id, fh uint64) {
	r.t.Helper()
	r.flush(id, fh)
	r.release(id, fh)
}

func (r *requests) flush(id, fh uint64) {
	r.t.Helper()
	if st := r.f.endings.Flush(nil, &FlushRequest{Request: r.header(id), Handle: fh}); st != 0 {
		r.t.Fatalf("close: %v", st)
	}
}

func (r *requests) release(id, fh uint64) {
	r.f.endings.Release(nil, &ReleaseRequest{Request: r.header(id), Handle: fh})
}

func (r *requests) header(id uint64) Request {
	return Request{Node: id, TID: r.tid}
}

// A file that was made without a name is on disk before it gets one, or does not get it.
func TestFirstNameWaitsForTheDisk(t *testing.T) {
	r := newRequests(t)
	var steps []string
	fails := true
	r.f.disk.store.SetFault(func(step string) error {
		steps = append(steps, step)
		if fails && step == "fsync" {
			return unix.EIO
		}
		return nil
	})
	var made Created
	in := CreateRequest{OpenRequest: OpenRequest{Request: r.header(rootID), Flags: unix.O_RDWR}, Mode: unix.S_IFREG | 0o600}
	if st := r.f.opens.Tmpfile(nil, &in, &made); st != 0 {
		t.Fatal(st)
	}
	link := func() unix.Errno {
		var out Entry
		return r.f.entries.Link(nil, &LinkRequest{Request: r.header(rootID), Target: made.Node}, "f", &out)
	}
	if st := link(); st != unix.EIO {
		t.Errorf("the disk fails, and the link answers %v", st)
	}
	if _, err := os.Lstat(filepath.Join(r.data, "f")); !os.IsNotExist(err) {
		t.Errorf("the disk has failed, and the name has %v", err)
	}
	fails = false
	if st := link(); st != 0 || !slices.Contains(steps, "fsync") {
		t.Errorf("the disk is well, and the link answers %v after %q", st, steps)
	}
}

// The shadow of a session that is over gets no name, whatever is in it: whoever has it open to
// read is told that the file has none. The kernel may not know yet that it has none.
func TestShadowThatIsOverGetsNoName(t *testing.T) {
	r := newRequests(t)
	r.replace("one")
	id := r.lookup("f")
	w, st := r.open(id, unix.O_RDWR)
	if st != 0 {
		t.Fatal(st)
	}
	if _, st = r.open(id, unix.O_RDONLY); st != 0 {
		t.Fatal(st)
	}
	r.close(id, w)
	var out Entry
	for _, want := range []unix.Errno{unix.ESTALE, unix.ENOENT} { // it may have come by the name of the file
		if st := r.f.entries.Link(nil, &LinkRequest{Request: r.header(rootID), Target: id}, "g", &out); st != want {
			t.Errorf("the link answers %v, want %v", st, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(r.data, "g")); !os.IsNotExist(err) {
		t.Errorf("the name has %v", err)
	}
}
