package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// A session's own family shares its lock, and may take the name away or change it at any
// time. While the session is being committed, such an operation would have to wait for the
// session's mutex, until the disk is done and until a validating command has ended; and
// the kernel holds the directory for it, so that everybody would wait, the command among
// them. So it waits where one that conflicts with a stranger's lock does: see parking.go.

// beginWork notes that the session is about to do what may take its time, until end is
// called. s.mu is held until then.
func (s *session) beginWork() (end func()) {
	over := make(chan struct{})
	s.working.Store(&over)
	return func() {
		s.working.Store(nil)
		close(over)
	}
}

// ownWork is a session of the caller's family on one of the places that is doing what may
// take its time, and a channel that is closed when that is over; nil if there is none.
func (pk *parking) ownWork(c *caller, places []place) (s *session, over <-chan struct{}) {
	for _, p := range places {
		s := pk.nodes.sessionOn(p.inode, p.dir, p.name)
		if s == nil || !c.BelongsTo(s.who.Load()) {
			continue
		}
		if over := s.working.Load(); over != nil {
			return s, *over
		}
	}
	return nil, nil
}

// waitForOwnWork has the caller wait on its second walk if a session of its own family is
// at work on one of the names. Who does not walk again waits where it is.
func (pk *parking) waitForOwnWork(c *caller, w *walk, repeated bool) unix.Errno {
	d := w.d
	own, over := pk.ownWork(c, d.places)
	if own == nil || repeated || c.TID() == 0 || d.wait == 0 || !pk.repeats(c, w.Op) {
		return 0
	}
	w.own, w.over = own, over
	if d.wait > 0 {
		d.until = time.Now().Add(d.wait)
	}
	_, e := pk.sendBack(c, w)
	return e
}

// lockAfterOwnWork waits until a session of the caller's own has done its work, and asks
// for the lock then.
func (pk *parking) lockAfterOwnWork(w *walk, cancel <-chan struct{}) unix.Errno {
	pk.otherWaits.Add(1) // what waits is shown
	err := pk.awaitOwnWork(w, cancel)
	pk.otherWaits.Add(1)
	if err != nil {
		return pk.locks.refuse(w.d, err)
	}
	return pk.askLate(w)
}

// askLate asks for the lock of a walk where it parks.
func (pk *parking) askLate(w *walk) unix.Errno {
	l, err := pk.locks.acquire(w.d, false)
	if err != nil {
		return pk.locks.refuse(w.d, err)
	}
	pk.astray.walks.Update(w, func() { w.lock, w.own, w.deadlocked = l, nil, false })
	return 0
}

func (pk *parking) awaitOwnWork(w *walk, cancel <-chan struct{}) error {
	err := pk.locks.waiting(w.d, cancel).For(w.over)
	if err == denied.ErrTimeout {
		err = &denied.Error{Cause: err, Holders: pk.rules.table.Holders(pk.rules.keysOf(w.d.places), nil)}
	}
	return err
}

// nodeWait is an open that has its lock, and waits until nobody else has the node open: see
// opening.takeOverSoon.
type nodeWait struct {
	c            *caller
	path         string
	mode         lockmgr.Mode
	since, until time.Time
}

// showNodeWait lets .locks show a wait until end is called.
func (pk *parking) showNodeWait(w *nodeWait) (end func()) {
	pk.nodeWaits.Store(w, true)
	pk.otherWaits.Add(1)
	return func() {
		pk.nodeWaits.Delete(w)
		pk.otherWaits.Add(1)
	}
}

// waitingForOthers describes those who wait for something else than a lock: for a session of
// their own family, or for others to close the file.
func (s *source) waitingForOthers() []report.Record {
	var out []report.Record
	for _, w := range s.f.astray.walks.All(func(w *walk) bool { return w.own != nil && w.IsBusy() }) {
		own := w.own
		r := s.waitingFor(w.d.c, w.d.path, fmt.Sprintf("%s[%d]", own.program(), own.who.Load().Owner().PID))
		r.Mode, r.Class, r.Operation, r.Since, r.Deadline = w.d.mode.String(), w.d.class.String(), w.d.op, w.Since(), w.d.until
		out = append(out, r)
	}
	s.f.parking.nodeWaits.Range(func(key, _ any) bool {
		w := key.(*nodeWait)
		r := s.waitingFor(w.c, w.path, "those who have the file open")
		r.Mode, r.Class, r.Operation, r.Since, r.Deadline = w.mode.String(), lockmgr.Session.String(), opOpen, w.since, w.until
		out = append(out, r)
		return true
	})
	return out
}

// waitingFor is the record of a wait for others, but for when and how.
func (s *source) waitingFor(c *caller, path, others string) report.Record {
	d := c.Describe()
	return report.Record{
		Path: path, Key: path, State: report.Waiting,
		Asker:    report.Asker{Owner: report.Process{PID: c.Owner().PID, Start: c.Owner().Start}, Host: s.host, UID: c.UID(), Program: d.Program, Cmdline: d.Cmdline, Cwd: d.Cwd},
		WaitsFor: []string{others}, Ahead: 1,
	}
}
