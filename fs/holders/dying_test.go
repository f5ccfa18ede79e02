package holders

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// killed is a process that is being killed: its descriptors are gone, and their FLUSHes are
// to come.
func (w *world) killed(pid int32) {
	p := w.procs[pid]
	p.signal, p.exiting, p.fds = 9, true, 0
}

// A process that is killed between two looks had the file when it was looked at first, and
// has nothing open at the second. It is waited for.
func TestKilledBetweenTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, 11)
		s := w.opened(10, false)
		w.procs[11].fds = 1
		by := w.closes(s, 10)
		w.killed(11)
		w.want("it was seen a moment ago", s.Find(owner(10), by), true, 11)

		by = w.closes(s, 10)
		found := s.Find(owner(10), by)
		w.want("it is being killed", found, false, 0, 11)
		w.diesIn(time.Second, 11)
		began := time.Now()
		if !s.Patience(by).Outlasts(found.Dying) || time.Since(began) != time.Second {
			t.Errorf("waited for %v", time.Since(began))
		}
		w.want("it is dead", s.Find(owner(10), by), false, 0)
	})
}

// What was seen before a wait does not count after it.
func TestAWaitForgetsWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, 11, 12)
		s := w.opened(10, false)
		w.procs[11].fds = 1
		by := w.closes(s, 10)
		w.procs[11].fds = 0
		w.killed(12)
		w.dies(12)
		s.Patience(by).Outlasts(nil)
		w.want("it has closed it meanwhile", s.Find(owner(10), by), false, 0)
	})
}

// A close waits for so long in all, however often it looks; and not at all where the
// closer is being killed too, or where nobody can be watched.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, 11, 12)
		s := w.opened(10, false)
		w.killed(11)
		w.killed(12)
		by := w.closes(s, 10)
		found := s.Find(owner(10), by)
		w.want("two die", found, false, 0, 11, 12)

		began, patience := time.Now(), s.Patience(by)
		waited := func(when string, outlasts, want bool, d time.Duration) {
			t.Helper()
			if outlasts != want || time.Since(began) != d {
				t.Errorf("%s: %v after %v, want %v after %v", when, outlasts, time.Since(began), want, d)
			}
		}
		w.diesIn(DyingWait/2, 11)
		waited("the first", patience.Outlasts(found.Dying[:1]), true, DyingWait/2)
		waited("the second does not die", patience.Outlasts(found.Dying[1:]), false, DyingWait)
		waited("once more", patience.Outlasts(found.Dying[1:]), false, DyingWait)

		began = time.Now()
		by.Killed = true
		waited("it is killed itself", s.Patience(by).Outlasts(found.Dying), false, 0)
		by.Killed, w.procs[12].watched = false, errors.New("no descriptors")
		waited("it cannot be watched", s.Patience(by).Outlasts(found.Dying), false, 0)
	})
}

// Only those are waited for who are being killed, live, and are not the closer.
func TestDying(t *testing.T) {
	for what, change := range map[string]func(w *world){
		"":                        func(*world) {},
		"it exits by itself":      func(w *world) { w.procs[11].signal = 0 },
		"the signal is not fatal": func(w *world) { w.procs[11].exiting = false },
		"nobody knows who it is":  func(w *world) { w.procs[11].nameless = true },
		"it is dead by now":       func(w *world) { w.procs[11].reaped = true },
	} {
		w := newWorld(t, 10, 11)
		s := w.opened(10, false)
		w.killed(11)
		by := w.closes(s, 10)
		change(w)
		if what == "" {
			w.want("its child is killed", s.Find(owner(10), by), false, 0, 11)
			w.want("nobody closes", s.Find(owner(10), nil), false, 0)
		} else {
			w.want(what, s.Find(owner(10), by), false, 0)
		}
	}
}

// The owner that is being killed is waited for by whoever else closes, and not by itself.
func TestDyingOwner(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.opened(10, false)
	w.killed(10)
	by := w.closes(s, 11)
	w.want("its child closes", s.Find(owner(10), by), false, 0, 10)
	by = w.closes(s, 10)
	w.want("it closes", s.Find(owner(10), by), false, 0)
	by.Exiting = false // by a thread that does not know yet
	w.want("its close is looked at", s.Find(owner(10), by), false, 0)
}
