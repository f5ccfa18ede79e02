package integration

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What a process holds it may convert, in whole or in part. One that cannot have
// more keeps what it has; two that wait for each other to have more do so for ever.
func TestRecordLockConversions(t *testing.T) {
	for _, family := range []string{"", "ofd-"} {
		forEachMount(t, func(t *testing.T, m *Mount) {
			m.WriteFile("x.lock", "x")
			a, fa := rangeLocker(t, m)
			b, fb := rangeLocker(t, m)
			set, wait := family+"setlk", family+"setlkw"
			a.OK(fcntlReq(set, fa, unix.F_RDLCK, 0, 100))
			a.OK(fcntlReq(set, fa, unix.F_WRLCK, 20, 10)) // alone: at once
			b.OK(fcntlReq(set, fb, unix.F_RDLCK, 0, 20))
			b.OK(fcntlReq(set, fb, unix.F_RDLCK, 30, 0))
			if _, err := b.Do(fcntlReq(set, fb, unix.F_RDLCK, 29, 1)); err != syscall.EAGAIN {
				t.Errorf("%s beside the converted part: %v, want EAGAIN", set, err)
			}
			if _, err := a.Do(fcntlReq(set, fa, unix.F_WRLCK, 30, 10)); err != syscall.EAGAIN {
				t.Errorf("%s over another's: %v, want EAGAIN", set, err)
			}
			lock := b.OK(fcntlReq(family+"getlk", fb, unix.F_WRLCK, 30, 0)).Lock
			if lock.Type != unix.F_RDLCK || lock.Start != 30 || lock.Len != 70 {
				t.Errorf("after the refusal %sgetlk says %+v, want a shared lock of 30+70", family, *lock)
			}
			up := a.Go(fcntlReq(wait, fa, unix.F_WRLCK, 30, 10))
			up.MustBlock(t)
			b.OK(fcntlReq(set, fb, unix.F_UNLCK, 30, 0))
			up.OK()
			down := b.Go(fcntlReq(wait, fb, unix.F_RDLCK, 20, 20))
			down.MustBlock(t)
			a.OK(fcntlReq(set, fa, unix.F_RDLCK, 20, 20))
			down.OK()
			if family != "" {
				return // fcntl(2): no deadlock detection for open file description locks
			}
			both := a.Go(fcntlReq(wait, fa, unix.F_WRLCK, 0, 0))
			both.MustBlock(t)
			if _, err := b.Do(fcntlReq(wait, fb, unix.F_WRLCK, 0, 0)); err != syscall.EDEADLK {
				t.Errorf("the second upgrade of what both share: %v, want EDEADLK", err)
			}
			b.MustClose(fb)
			both.OK()
		})
	}
}

// F_GETLK names who is in the way and where; one's own lock is not.
func TestGetlkNamesTheHolder(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, fa := rangeLocker(t, m)
		b, fb := rangeLocker(t, m)
		c, fc := rangeLocker(t, m)
		b.OK(fcntlReq("setlk", fb, unix.F_WRLCK, 50, 0))
		a.OK(fcntlReq("setlk", fa, unix.F_RDLCK, 10, 10))
		for _, q := range []struct {
			by        *Client
			fd        int
			kind      int
			from, len int64
			want      wire.Lock
		}{
			{c, fc, unix.F_WRLCK, 0, 40, wire.Lock{Type: unix.F_RDLCK, Start: 10, Len: 10, PID: int32(a.PID)}},
			{c, fc, unix.F_RDLCK, 0, 0, wire.Lock{Type: unix.F_WRLCK, Start: 50, PID: int32(b.PID)}},
			{a, fa, unix.F_WRLCK, 0, 0, wire.Lock{Type: unix.F_WRLCK, Start: 50, PID: int32(b.PID)}},
			{b, fb, unix.F_WRLCK, 30, 0, wire.Lock{Type: unix.F_UNLCK, Start: 30}},
		} {
			if got := q.by.OK(fcntlReq("getlk", q.fd, q.kind, q.from, q.len)).Lock; *got != q.want {
				t.Errorf("type %d at %d+%d: %+v, want %+v", q.kind, q.from, q.len, *got, q.want)
			}
		}
	})
}

// Who may only read is told of other lockers by F_GETLK, and not of a writer, beside whom it
// reads the version that there is: Samba asks so before each read.
func TestGetlkBesideAWriter(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		m.WriteFile("x.lock", "x")
		w, r := m.Client(t), m.Client(t)
		fw := w.Open("f", unix.O_RDWR)
		w.Write(fw, "new")
		fr := r.Open("f", unix.O_RDONLY)
		for _, kind := range []int{unix.F_RDLCK, unix.F_WRLCK} {
			if got := r.OK(fcntlReq("getlk", fr, kind, 0, 0)).Lock; got.Type != unix.F_UNLCK {
				t.Errorf("a reader that asks for type %d beside a writer is told %+v", kind, *got)
			}
		}
		if got := r.ReadAt(fr, 10, 0); got != "old" {
			t.Errorf("it reads %q", got)
		}
		w.MustClose(fw)
		locker, fl := rangeLocker(t, m)
		locker.OK(fcntlReq("setlk", fl, unix.F_WRLCK, 0, 0))
		want := wire.Lock{Type: unix.F_WRLCK, PID: int32(locker.PID)}
		if got := r.OK(fcntlReq("getlk", r.Open("x.lock", unix.O_RDONLY), unix.F_RDLCK, 0, 0)).Lock; *got != want {
			t.Errorf("a reader beside a locker is told %+v, want %+v", *got, want)
		}
	})
}

// An open file description lock lasts as long as the last descriptor of it, and
// its waiters and holders may be killed.
func TestOpenFileLockEnds(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, fa := rangeLocker(t, m)
		b, fb := rangeLocker(t, m)
		c, fc := rangeLocker(t, m)
		d, fd := rangeLocker(t, m)
		a.OK(fcntlReq("ofd-setlk", fa, unix.F_WRLCK, 0, 0))
		dup := int(a.OK(wire.Request{Op: "dup", FD: fa}).N)
		a.MustClose(fa)
		wait := b.Go(fcntlReq("ofd-setlkw", fb, unix.F_WRLCK, 0, 0))
		wait.MustBlock(t)
		a.MustClose(dup)
		wait.OK()
		killed := c.Go(fcntlReq("ofd-setlkw", fc, unix.F_WRLCK, 0, 0))
		killed.MustBlock(t)
		last := d.Go(fcntlReq("ofd-setlkw", fd, unix.F_WRLCK, 0, 0))
		last.MustBlock(t)
		c.Signal(syscall.SIGKILL)
		if !killed.Ended() {
			t.Fatalf("a waiting fcntl survives SIGKILL: %s", describe(c.PID))
		}
		b.Kill()
		last.OK()
	})
}

// Over fork an open file description lock is both processes', and lasts as long
// as either; a POSIX lock stays the parent's and ends with it.
func TestRecordLocksOverFork(t *testing.T) {
	const script = `
import fcntl, os, struct, sys
fd = os.open("x.lock", os.O_RDWR)
fcntl.fcntl(fd, getattr(fcntl, sys.argv[1]), struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
child = os.fork()
if (child == 0) != (sys.argv[2] == "child"):
    os._exit(0)
if child:
    os.wait()
print("ready", flush=True)
sys.stdin.readline()
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		for _, c := range []struct {
			command, stays string
			held           bool
		}{
			{"F_SETLK", "parent", true}, {"F_SETLK", "child", false},
			{"F_OFD_SETLK", "parent", true}, {"F_OFD_SETLK", "child", true},
		} {
			p := m.LaunchPython(t, script, c.command, c.stays)
			p.AwaitLine("ready")
			if c.stays == "child" {
				eventually(t, "the parent's end", func() bool { return !alive(p.PID()) })
			}
			b, fb := rangeLocker(t, m)
			wait := b.Go(fcntlReq("setlkw", fb, unix.F_WRLCK, 0, 0))
			if c.held {
				wait.MustBlock(t)
				p.Close()
			}
			wait.OK()
			b.MustClose(fb)
		}
	})
}

// EINTR: a handler that does not restart ends the wait.
func TestRecordWaitIsInterruptible(t *testing.T) {
	const script = `
import fcntl, os, signal, struct, sys
class Interrupted(Exception): pass
def handler(*a): raise Interrupted
signal.signal(signal.SIGTERM, handler)
fd = os.open("x.lock", os.O_RDWR)
try:
    fcntl.fcntl(fd, getattr(fcntl, sys.argv[1]), struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
except Interrupted:
    print("interrupted")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, fa := rangeLocker(t, m)
		a.OK(fcntlReq("setlk", fa, unix.F_WRLCK, 0, 0))
		for _, command := range []string{"F_SETLKW", "F_OFD_SETLKW"} {
			p := m.LaunchPython(t, script, command)
			eventually(t, "fcntl waits", func() bool { return inSyscall(p.PID(), unix.SYS_FCNTL) })
			done := timeLimit(t, 2*time.Second, "the interruption")
			p.Signal(syscall.SIGTERM)
			if out := p.OK(); out != "interrupted\n" {
				t.Errorf("%s: printed %q", command, out)
			}
			done()
		}
		b, fb := rangeLocker(t, m)
		a.Kill()
		b.OK(fcntlReq("setlkw", fb, unix.F_WRLCK, 0, 0)) // nobody stands in the queue
	})
}
