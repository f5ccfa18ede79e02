package fs

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/heartbeat"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
)

// heartbeatEngine is the filesystem as package heartbeat needs it.
type heartbeatEngine struct{ f *FS }

var _ heartbeat.Engine = heartbeatEngine{}

// openHeart makes what sends heartbeats. Processes and the lock table are known.
func (f *FS) openHeart() {
	f.locks.heart = heartbeat.New(heartbeat.Config{Engine: heartbeatEngine{f}, Procs: f.callers.proc, Table: f.rules.table, Done: f.life.done})
}

// Timed implements heartbeat.Engine.
func (ls heartbeatEngine) Timed(l *lockmgr.DueLease) (timed, inForce bool) {
	if lb, ok := l.Label.(*label); ok && lb.claim != nil {
		return ls.f.claimFiles.filed.IsTimed(lb.claim)
	}
	return false, false
}

// Used implements heartbeat.Engine.
func (ls heartbeatEngine) Used(l *lockmgr.DueLease) (used bool, others []lockmgr.Owner) {
	lb, ok := l.Label.(*label)
	if !ok {
		return false, nil
	}
	if ls.f.locks.lastUse(lb).After(l.Since) {
		return true, nil
	}
	if s := lb.session.Load(); s != nil {
		if ls.f.locks.touched(s) {
			return true, nil
		}
		others = ls.f.locks.users(s)
	}
	if lb.claim != nil {
		others = ls.f.callers.ctl.Claims.JoinedBy(lb.claim)
	}
	return false, others
}

// Missed implements heartbeat.Engine.
func (ls heartbeatEngine) Missed(l *lockmgr.DueLease, failed int) {
	if failed == lockmgr.Heartbeats {
		lb, _ := l.Label.(*label)
		ls.f.locks.leaseEvent("heartbeat_failed", lb, l.Owner, nil)
	}
	ls.f.locks.settleThefts(nil)
	if lb, ok := l.Label.(*label); ok && lb.claim != nil && failed == lockmgr.Heartbeats {
		ls.f.claimFiles.filed.Stale(lb.claim)
	}
}

// lastUse is when something was last done with what the lock stands for.
func (lk *locks) lastUse(lb *label) time.Time {
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

// holderProgram is the name of the program that holds a lock. The process that has asked for
// the lock may be another one: `latchfs acquire` asks for the script that calls it. Once such a
// holder has ended, its name is the one that an earlier event has told.
func (lb *label) holderProgram(cs *callers, holder lockmgr.Owner) string {
	asker := lb.c.Describe().Program
	if lb.c.Owner() == holder || lb.claim == nil {
		return asker
	}
	if th, err := cs.proc.Process(holder.PID); err == nil && th.Owner == holder {
		if name := cs.proc.Program(holder.PID); name != "" {
			lb.claim.Program.Store(&name)
		}
	}
	if name := lb.claim.Program.Load(); name != nil {
		return *name
	}
	return asker
}

// leaseEvent writes an event about a lock to the audit trail, with the fields of
// requirement T9. The detail is the event's own from now on.
func (lk *locks) leaseEvent(event string, lb *label, o lockmgr.Owner, detail map[string]any) {
	ev := audit.Event{Time: time.Now(), Event: event, PID: o.PID, Detail: detail}
	if lb != nil {
		if detail == nil {
			ev.Detail = map[string]any{}
		}
		ev.Path, ev.Session = lb.where(), lb.id()
		ev.Detail["operation"], ev.Detail["uid"] = lb.op, lb.c.UID()
		ev.Detail["actor"], ev.Detail["lock_name"] = lb.shownActor(), ev.Path
		if ev.Detail["actor"] == "" {
			ev.Detail["actor"] = lb.holderProgram(lk.callers, o)
		}
		if lb.name != "" {
			ev.Detail["lock_name"] = lb.name
		}
		if ev.Detail["request_id"] == nil && ev.Session != "" {
			ev.Detail["request_id"] = ev.Session
		}
	}
	lk.reports.event(ev)
}

// touched reports whether the shadow has changed since it was last asked: with
// passthrough nothing else tells of writes.
func (lk *locks) touched(s *session) bool {
	if !s.mu.TryLock() {
		return true // somebody is at it
	}
	defer s.mu.Unlock()
	if s.state.HasEnded() {
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
func (lk *locks) users(s *session) []lockmgr.Owner {
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	return s.holders.Seen()
}
