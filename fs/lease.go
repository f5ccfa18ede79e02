package fs

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// heart sends the heartbeats of leases. A holder is alive if there is evidence
// since the last heartbeat: a process of its, the owner or an heir, has used CPU
// time and is neither stopped nor dead; or something was done with what the lock
// stands for, which is all that can be seen of a process in another pid
// namespace.
type heart struct {
	f *FS

	mu    sync.Mutex // guards next and timer
	next  time.Time  // when the next round is due; zero: none is
	timer *time.Timer

	round  sync.Mutex // held during a round; guards pulses
	pulses map[lockmgr.Owner]*vitals
}

// vitals is what was last seen of an owner and its heirs.
type vitals struct {
	at    time.Time // of the last look
	alive time.Time // of the last look that found a sign of life
	each  map[int32]proc.Pulse
}

func newHeart(f *FS) *heart { return &heart{f: f, pulses: map[lockmgr.Owner]*vitals{}} }

// arm makes sure that the first heartbeat of a new lease comes in time.
func (h *heart) arm(ttl time.Duration) {
	if ttl > 0 {
		h.at(time.Now().Add(ttl / lockmgr.Heartbeats))
	}
}

// at lets a round run no later than at a moment.
func (h *heart) at(t time.Time) {
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

// beat is one round.
func (h *heart) beat() {
	h.round.Lock()
	defer h.round.Unlock()
	h.mu.Lock()
	h.next = time.Time{}
	h.mu.Unlock()
	select {
	case <-h.f.done:
		return
	default:
	}
	now := time.Now()
	due, next := h.f.table.Due(now)
	for i := range due {
		h.check(&due[i], now)
	}
	for o, v := range h.pulses {
		if len(v.each) == 0 || now.Sub(v.at) > forgetPulse {
			delete(h.pulses, o)
		}
	}
	if !next.IsZero() {
		h.at(next)
	}
}

// forgetPulse is for how long a pulse is remembered that nobody asks for.
const forgetPulse = time.Hour

// check sends one heartbeat.
func (h *heart) check(l *lockmgr.DueLease, now time.Time) {
	f := h.f
	failed := f.table.Heartbeat(l.Lock, now, h.alive(l, now))
	if failed == lockmgr.Heartbeats {
		lb, _ := l.Label.(*label)
		f.leaseEvent("heartbeat_failed", lb, l.Owner, nil)
	}
	if failed > 0 {
		f.settleThefts(nil)
	}
}

func (h *heart) alive(l *lockmgr.DueLease, now time.Time) bool {
	if h.f.table.Waits(l.Owner) {
		return true // it stands in our own queue, and its wait has an end
	}
	if l.Class != lockmgr.Session && l.Owner.PID != 0 && !h.f.proc.Alive(l.Owner) {
		return true // whoever has inherited the descriptor keeps the lock
	}
	var others []lockmgr.Owner
	if lb, ok := l.Label.(*label); ok {
		if h.f.lastUse(lb).After(l.Since) {
			return true
		}
		if s := lb.session.Load(); s != nil {
			if s.touched() {
				return true
			}
			others = s.users()
		}
		if lb.claim != nil {
			others = h.f.ctl.Claims.JoinedBy(lb.claim)
		}
	}
	alive := h.ownerAlive(l.Owner, l.Since, now)
	for _, o := range others {
		alive = h.ownerAlive(o, l.Since, now) || alive
	}
	return alive
}

// ownerAlive reports whether a process or a descendant of its has shown life
// since a moment. Of one that is seen for the first time that is taken for
// granted, unless it is stopped or dead.
func (h *heart) ownerAlive(o lockmgr.Owner, since, now time.Time) bool {
	if o.PID == 0 {
		return false
	}
	v := h.pulses[o]
	if v == nil {
		v = &vitals{}
		h.pulses[o] = v
	}
	if v.at != now {
		v.look(h.f.proc, o, now)
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

// lastUse is when something was last done with what the lock stands for.
func (f *FS) lastUse(lb *label) time.Time {
	if s := lb.session.Load(); s != nil {
		return s.used.get()
	}
	if lb.claim != nil {
		return lb.claim.LastUse()
	}
	return time.Time{}
}

// usage is when something was last used.
type usage struct{ at atomic.Int64 }

func (u *usage) note()          { u.at.Store(time.Now().UnixNano()) }
func (u *usage) get() time.Time { return time.Unix(0, u.at.Load()) }

// leaseEvent writes an event about a lock to the audit trail, with the fields of
// requirement T9. The detail is the event's own from now on.
func (f *FS) leaseEvent(event string, lb *label, o lockmgr.Owner, detail map[string]any) {
	ev := journal.Event{Time: time.Now(), Event: event, PID: o.PID, Detail: detail}
	if lb != nil {
		if detail == nil {
			ev.Detail = map[string]any{}
		}
		ev.Path, ev.Session = lb.where(), lb.id()
		ev.Detail["operation"], ev.Detail["uid"] = lb.op, lb.c.uid
		ev.Detail["actor"], ev.Detail["lock_name"] = f.actorOf(lb), ev.Path
		if ev.Detail["actor"] == "" {
			ev.Detail["actor"] = lb.c.describe().Program
		}
		if lb.name != "" {
			ev.Detail["lock_name"] = lb.name
		}
	}
	f.event(ev)
}

// touched reports whether the shadow has changed since it was last asked: with
// passthrough nothing else tells of writes.
func (s *session) touched() bool {
	if !s.mu.TryLock() {
		return true // somebody is at it
	}
	defer s.mu.Unlock()
	if s.state.hasEnded() {
		return true // its lock is about to be released
	}
	var st unix.Stat_t
	if unix.Fstat(s.shadow.FD(), &st) != nil {
		return false
	}
	now := stampOf(&st)
	changed := now != s.stamp
	s.stamp = now
	return changed
}

func stampOf(st *unix.Stat_t) shadowStamp {
	return shadowStamp{st.Size, st.Mtim, st.Ctim, st.Blocks}
}

// shadowStamp tells a shadow from what it was.
type shadowStamp struct {
	size         int64
	mtime, ctime unix.Timespec
	blocks       int64
}

// users are the processes seen using the session's handles.
func (s *session) users() []lockmgr.Owner {
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	out := make([]lockmgr.Owner, 0, len(s.seen))
	for _, o := range s.seen {
		out = append(out, o)
	}
	return out
}
