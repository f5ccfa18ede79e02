// Package heartbeat sends the heartbeats of leases: it finds out whether the holder of a
// lock that has a lease shows a sign of life, and tells the lock table.
//
//	a lease of TTL   ├──────┬──────┬──────┤   lockmgr.Heartbeats looks, one each TTL/3;
//	                 0      1      2      3   after as many in vain the lock can be stolen
//
// A holder is alive if the lease says when it ends by itself, and has not ended
// (Engine.Timed), or if there is evidence of life since its last heartbeat, any of these:
//
//   - it waits in the lock table's own queue, for its wait has an end;
//   - the lock is of a descriptor and the process that took it is gone: whoever has
//     inherited the descriptor keeps the lock;
//   - something was done with what the lock stands for (Engine.Used), which is all that
//     can be seen of a process in another pid namespace;
//   - a process of the holder's, or a descendant of one, has used processor time, and is
//     neither stopped nor dead (proc.Pulse). The first look at one counts as a sign. One
//     that is inside execve for the moment shows nothing either way.
//
// There is one timer, for the heartbeat that is due next, and none where no lock has a
// lease. Rounds end with Config.Done.
//
// Heart.round is held during a round and guards what was last seen of processes. The
// engine is called with it held, and settles thefts then: it stands at the top of the
// order. Heart.mu guards the timer, and nobody takes another mutex while holding it.
package heartbeat

import (
	"errors"
	"sync"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Procs tells of processes; see proc.Reader, which does.
type Procs interface {
	Alive(o lockmgr.Owner) bool
	Descendants(pid int32) []int32
	Pulse(pid int32) (proc.Pulse, error)
}

// Engine knows what locks stand for.
type Engine interface {
	// Timed reports whether the lease does not depend on signs of life of its holder, and
	// then whether it is in force: the holder of a claim file sends heartbeats of its own.
	Timed(l *lockmgr.DueLease) (timed, inForce bool)
	// Used reports whether something was done with what the lock stands for since
	// l.Since. If not, others are the processes beside the owner that work under it.
	Used(l *lockmgr.DueLease) (used bool, others []lockmgr.Owner)
	// Missed is told that the holder has shown no sign of life; failed is how often in
	// a row. With lockmgr.Heartbeats the lease is over, and a waiter may have the lock.
	Missed(l *lockmgr.DueLease, failed int)
}

// Config is what a Heart works with.
type Config struct {
	Engine Engine
	Procs  Procs
	Table  lockmgr.Authority
	Done   <-chan struct{} // closed when no more heartbeats are wanted
}

// Heart sends the heartbeats of one lock table's leases.
type Heart struct {
	c Config

	mu    sync.Mutex // guards next and timer
	next  time.Time  // when the next round is due; zero: none is
	timer *time.Timer

	round sync.Mutex // held during a round; guards seen
	seen  map[lockmgr.Owner]*vitals
}

// vitals is what was last seen of a process and its descendants.
type vitals struct {
	at    time.Time // of the last look
	alive time.Time // of the last look that found a sign of life
	each  map[int32]proc.Pulse
}

// keepUnasked is how long what was seen of a process is kept while no lease depends on it.
const keepUnasked = time.Hour

// New makes a heart that rests until it is armed.
func New(c Config) *Heart { return &Heart{c: c, seen: map[lockmgr.Owner]*vitals{}} }

// Arm makes sure that the first heartbeat of a new lease comes in time. A ttl of 0 is no
// lease.
func (h *Heart) Arm(ttl time.Duration) {
	if ttl > 0 {
		h.at(time.Now().Add(ttl / lockmgr.Heartbeats))
	}
}

// at lets a round run no later than at a moment.
func (h *Heart) at(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.next.IsZero() && !t.Before(h.next) {
		return
	}
	h.next = t
	d := max(time.Until(t), 0)
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.beat)
	} else {
		h.timer.Reset(d)
	}
}

// IsFree reports whether no round is under way. A simulation asks, which must not wait for one.
func (h *Heart) IsFree() bool {
	if !h.round.TryLock() {
		return false
	}
	h.round.Unlock()
	return true
}

// beat is one round.
func (h *Heart) beat() {
	h.round.Lock()
	defer h.round.Unlock()
	h.mu.Lock()
	h.next = time.Time{}
	h.mu.Unlock()
	select {
	case <-h.c.Done:
		return
	default:
	}
	now := time.Now()
	due, next := h.c.Table.Due(now)
	for i := range due {
		l := &due[i]
		if failed := h.c.Table.Heartbeat(l.Lock, now, h.alive(l, now)); failed > 0 {
			h.c.Engine.Missed(l, failed)
		}
	}
	for o, v := range h.seen {
		if len(v.each) == 0 || now.Sub(v.at) > keepUnasked {
			delete(h.seen, o)
		}
	}
	if !next.IsZero() {
		h.at(next)
	}
}

// alive reports whether there is evidence that the holder lives; see the package.
func (h *Heart) alive(l *lockmgr.DueLease, now time.Time) bool {
	if timed, inForce := h.c.Engine.Timed(l); timed {
		return inForce
	}
	if h.c.Table.Waits(l.Owner) {
		return true
	}
	if l.Class != lockmgr.Session && l.Owner.PID != 0 && !h.c.Procs.Alive(l.Owner) {
		return true
	}
	used, others := h.c.Engine.Used(l)
	if used {
		return true
	}
	alive := h.ownerAlive(l.Owner, l.Since, now)
	for _, o := range others {
		alive = h.ownerAlive(o, l.Since, now) || alive // each is looked at each time
	}
	return alive
}

// ownerAlive reports whether a process or a descendant of it has shown life since a
// moment. A process that is looked at for the first time counts as one that has, unless it is
// stopped or dead.
func (h *Heart) ownerAlive(o lockmgr.Owner, since, now time.Time) bool {
	if o.PID == 0 {
		return false
	}
	v := h.seen[o]
	if v == nil {
		v = &vitals{}
		h.seen[o] = v
	}
	if v.at != now {
		v.look(h.c.Procs, o, now)
	}
	return v.alive.After(since)
}

// look takes the pulse of a process and its descendants.
func (v *vitals) look(r Procs, o lockmgr.Owner, now time.Time) {
	v.at = now
	each := map[int32]proc.Pulse{}
	for _, pid := range append(r.Descendants(o.PID), o.PID) {
		p, err := r.Pulse(pid)
		before, known := v.each[pid]
		switch {
		case errors.Is(err, proc.ErrBusy): // in execve: neither way
			if known {
				each[pid] = before
			}
			continue
		case err != nil || pid == o.PID && p.Start != o.Start:
			continue
		}
		each[pid] = p
		if p.Alive(before) {
			v.alive = now
		}
	}
	v.each = each
}
