package fs

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// unseen are the processes of the machine while the daemon cannot find out what they have
// open, or what they have mapped: each of them is inside execve, or holds the lock of its
// memory. None has a capability.
type unseen struct {
	Procs
	files, maps atomic.Bool
	holding     atomic.Bool  // everybody has another descriptor of the file that is asked for
	opens       atomic.Int32 // how often it was asked what somebody has open
	outputs     atomic.Int32 // how often somebody's standard output was asked for
}

// IsOutput implements Procs.
func (u *unseen) IsOutput(pid int32, f proc.File) bool {
	u.outputs.Add(1)
	return u.Procs.IsOutput(pid, f)
}

// OpensOfCloser implements Procs.
func (u *unseen) OpensOfCloser(o lockmgr.Owner, f proc.File) (writable, readable int, err error) {
	return u.Opens(o.PID, f)
}

// Opens implements Procs.
func (u *unseen) Opens(pid int32, f proc.File) (writable, readable int, err error) {
	u.opens.Add(1)
	switch {
	case u.files.Load():
		return 0, 0, fmt.Errorf("process %d: %w", pid, proc.ErrBusy)
	case u.holding.Load():
		return 1, 0, nil
	}
	return u.Procs.Opens(pid, f)
}

// MapsWritable implements Procs.
func (u *unseen) MapsWritable(pid int32, f, backing proc.File) (bool, error) {
	if u.maps.Load() {
		return false, fmt.Errorf("process %d: %w", pid, proc.ErrBusy)
	}
	return u.Procs.MapsWritable(pid, f, backing)
}

// HasCap implements Procs.
func (u *unseen) HasCap(uint32, int) bool { return false }

// Groups implements Procs.
func (u *unseen) Groups(uint32) (groups []uint32, known bool) { return nil, true }

// noKernel is a kernel that has nothing cached.
type noKernel struct{}

func (noKernel) InodeNotify(uint64, int64, int64)        {}
func (noKernel) EntryNotify(uint64, string)              {}
func (noKernel) RegisterBacking(int) (int32, unix.Errno) { return 0, unix.ENOSYS }
func (noKernel) UnregisterBacking(int32) unix.Errno      { return 0 }
func (noKernel) MapsDirect() bool                        { return false }

// unmounted sends the requests of one thread to a filesystem that has no mount.
func unmounted(t *testing.T, rules string) (*requests, *unseen) {
	t.Helper()
	return unmountedWith(t, rules, nil)
}

// unmountedWith is unmounted with another lock authority than a lock table of its own.
func unmountedWith(t *testing.T, rules string, authority func(first uint64) lockmgr.Authority) (*requests, *unseen) {
	t.Helper()
	p, err := policy.Parse("test", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: t.TempDir(), Policy: p, Log: quiet{}, Authority: authority}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	real, err := proc.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	eyes := &unseen{Procs: real}
	f := newFS(o)
	f.kernel.srv, f.nodes.maxInodes = noKernel{}, 1000
	f.openCallers(eyes)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.openData())
	must(f.openState())
	f.openUpdates()
	f.openChanges()
	f.openReadClaims()
	f.openAdvisory()
	f.openControlRoom()
	f.disk.procfd, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	f.view.virt = newVirtual(f, locksdir.New(f.view.source))
	must(f.kernel.plantRoot())
	runtime.LockOSThread()
	t.Cleanup(func() {
		runtime.UnlockOSThread()
		f.Stop()
		f.Abandon()
		f.Close()
		unix.Close(f.disk.rootfd)
		unix.Close(f.disk.procfd)
		f.disk.state.Close()
	})
	return &requests{t: t, f: f, data: o.Dir, tid: uint32(unix.Gettid())}, eyes
}

// write writes at an offset.
func (r *requests) write(id, fh uint64, at int, text string) {
	r.t.Helper()
	in := WriteRequest{Request: r.header(id), Handle: fh, Flags: r.f.handles.handleOf(fh).flags, Offset: uint64(at)}
	if n, st := r.f.contents.Write(nil, &in, [][]byte{[]byte(text)}); st != 0 || int(n) != len(text) {
		r.t.Fatalf("write of %q: %d, %v", text, n, st)
	}
}

// closes sends what the close of one of several descriptors sends.
func (r *requests) closes(id, fh uint64) unix.Errno {
	return r.f.endings.Flush(nil, &FlushRequest{Request: r.header(id), Handle: fh})
}

// want compares the file f, and how often the audit trail tells of each event on it.
func (r *requests) want(when, content string, events map[string]int) {
	r.t.Helper()
	if b, err := os.ReadFile(filepath.Join(r.data, "f")); err != nil || string(b) != content {
		r.t.Errorf("%s: the file holds %q, %v; want %q", when, b, err, content)
	}
	log := r.f.reports.trail.View()
	got := map[string]int{}
	for d := json.NewDecoder(io.NewSectionReader(log, 0, log.Size())); ; {
		var ev struct{ Event, Path string }
		if err := d.Decode(&ev); err == io.EOF {
			break
		} else if err != nil {
			r.t.Fatal(err)
		}
		if ev.Path == "f" {
			got[ev.Event]++
		}
	}
	for _, event := range []string{"commit", "rollback"} {
		if got[event] != events[event] {
			r.t.Errorf("%s: %d events of %s, want %d", when, got[event], event, events[event])
		}
	}
}

// kept is the content of all refused bytes.
func (r *requests) kept() (all []string) {
	r.t.Helper()
	for _, k := range r.f.view.source.Rejected(owner()) {
		c, err := k.Files.Content()
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
		if err != nil {
			r.t.Fatal(err)
		}
		c.Close()
		all = append(all, string(b))
	}
	return all
}
