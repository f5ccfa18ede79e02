package integration

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

func fcntlReq(op string, fd, kind int, start, length int64) wire.Request {
	return wire.Request{Op: op, FD: fd, Kind: kind, Off: start, Len: length}
}

// rangeLocker opens read-write, which a write lock needs; on an atomic file the
// session would exclude others, so the scenarios use live files.
func rangeLocker(t *testing.T, m *Mount) (*Client, int) {
	t.Helper()
	c := m.Client(t)
	return c, c.Open("x.lock", unix.O_RDWR)
}

func TestPosixRanges(t *testing.T) {
	for _, family := range []string{"", "ofd-"} {
		forEachMount(t, func(t *testing.T, m *Mount) {
			m.WriteFile("x.lock", strings.Repeat("x", 100))
			a, fa := rangeLocker(t, m)
			b, fb := rangeLocker(t, m)
			a.OK(fcntlReq(family+"setlk", fa, unix.F_WRLCK, 10, 10))
			a.OK(fcntlReq(family+"setlk", fa, unix.F_RDLCK, 40, 0)) // to the end
			for _, c := range []struct {
				kind          int
				start, length int64
				want          error
			}{
				{unix.F_WRLCK, 0, 10, nil},
				{unix.F_WRLCK, 20, 20, nil},
				{unix.F_WRLCK, 19, 1, syscall.EAGAIN},
				{unix.F_RDLCK, 5, 6, syscall.EAGAIN},
				{unix.F_RDLCK, 50, 5, nil},
				{unix.F_WRLCK, 1 << 40, 1, syscall.EAGAIN},
			} {
				_, err := b.Do(fcntlReq(family+"setlk", fb, c.kind, c.start, c.length))
				if err != c.want {
					t.Errorf("%ssetlk type %d at %d+%d: %v, want %v", family, c.kind, c.start, c.length, err, c.want)
				}
			}
			lock := b.OK(fcntlReq(family+"getlk", fb, unix.F_WRLCK, 0, 15)).Lock
			pid := int32(a.PID)
			if family != "" {
				pid = -1
			}
			if *lock != (wire.Lock{Type: unix.F_WRLCK, Start: 10, Len: 10, PID: pid}) {
				t.Errorf("%sgetlk says %+v", family, *lock)
			}
			// Splitting: the middle goes free, both ends stay.
			a.OK(fcntlReq(family+"setlk", fa, unix.F_UNLCK, 14, 2))
			b.OK(fcntlReq(family+"setlk", fb, unix.F_WRLCK, 14, 2))
			wait := b.Go(fcntlReq(family+"setlkw", fb, unix.F_WRLCK, 16, 1))
			wait.MustBlock(t)
			a.OK(fcntlReq(family+"setlk", fa, unix.F_UNLCK, 16, 4))
			wait.OK()
		})
	}
}

// POSIX locks end at the close of any descriptor of the process, however it was
// opened; open file description locks only at the last close of their own.
func TestRecordLockLifetimes(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, f1 := rangeLocker(t, m)
		b, fb := rangeLocker(t, m)
		for _, c := range []struct {
			family string
			want   error
		}{{"", nil}, {"ofd-", syscall.EAGAIN}} {
			family, want := c.family, c.want
			f2 := a.Open("x.lock", unix.O_RDONLY)
			a.OK(fcntlReq(family+"setlk", f1, unix.F_WRLCK, 0, 0))
			a.MustClose(f2)
			if _, err := b.Do(fcntlReq(family+"setlk", fb, unix.F_WRLCK, 0, 0)); err != want {
				t.Errorf("%ssetlk after the close of another descriptor: %v, want %v", family, err, want)
			}
			b.OK(fcntlReq(family+"setlk", fb, unix.F_UNLCK, 0, 0))
			a.OK(fcntlReq(family+"setlk", f1, unix.F_UNLCK, 0, 0))
		}
		// Two opens of one process: one owner to POSIX, two as descriptions.
		f2 := a.Open("x.lock", unix.O_RDWR)
		a.OK(fcntlReq("setlk", f1, unix.F_WRLCK, 0, 0))
		a.OK(fcntlReq("setlk", f2, unix.F_WRLCK, 0, 0))
		a.OK(fcntlReq("setlk", f1, unix.F_UNLCK, 0, 0))
		a.OK(fcntlReq("ofd-setlk", f1, unix.F_WRLCK, 0, 0))
		if _, err := a.Do(fcntlReq("ofd-setlk", f2, unix.F_WRLCK, 0, 0)); err != syscall.EAGAIN {
			t.Errorf("another description of the same process: %v, want EAGAIN", err)
		}
	})
}

// A waiting fcntl lock can be killed, a dead process's locks are gone, and a
// cycle of waits is refused.
func TestPosixWaits(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, fa := rangeLocker(t, m)
		b, fb := rangeLocker(t, m)
		a.OK(fcntlReq("setlk", fa, unix.F_WRLCK, 0, 1))
		b.OK(fcntlReq("setlk", fb, unix.F_WRLCK, 1, 1))
		wait := a.Go(fcntlReq("setlkw", fa, unix.F_WRLCK, 1, 1))
		wait.MustBlock(t)
		if _, err := b.Do(fcntlReq("setlkw", fb, unix.F_WRLCK, 0, 1)); err != syscall.EDEADLK {
			t.Errorf("closing the cycle: %v, want EDEADLK", err)
		}
		b.OK(fcntlReq("setlk", fb, unix.F_UNLCK, 1, 1))
		wait.OK()
		killed := b.Go(fcntlReq("setlkw", fb, unix.F_WRLCK, 0, 0))
		killed.MustBlock(t)
		b.Signal(syscall.SIGKILL)
		if !killed.Ended() {
			t.Fatalf("a waiting fcntl survives SIGKILL: %s", describe(b.PID))
		}
		c, fc := rangeLocker(t, m)
		next := c.Go(fcntlReq("setlkw", fc, unix.F_WRLCK, 0, 0))
		next.MustBlock(t)
		a.Kill()
		next.OK()
	})
}

// flock and fcntl locks do not see each other, as on any local filesystem.
func TestFlockAndFcntlAreApart(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, fa := rangeLocker(t, m)
		b, fb := rangeLocker(t, m)
		a.OK(flockReq(fa, unix.LOCK_EX))
		b.OK(fcntlReq("setlk", fb, unix.F_WRLCK, 0, 0))
	})
}
