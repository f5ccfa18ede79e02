package fs

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/fs/refusals"
	"latchfs/fs/tally"
	"latchfs/journal/audit"
	"latchfs/lockmgr/policy"
)

// reports tells operators what was done and refused: in the audit trail, in .locks/why and in
// the log.
type reports struct {
	trail      *audit.Trail // nil when mounted read-only
	trailFails atomic.Bool  // the last event could not be written
	refused    refusals.Ring
	omitted    tally.Tally[audit.Event] // refusals that the audit trail counts

	callers *callers
	disk    *disk
	life    *life
	nodes   *nodes
	rules   *rules
}

// refusalEvent writes a refusal of a lock to the audit trail; lb is the label with
// which the caller asked for it.
func (rp *reports) refusalEvent(x *refusals.Refusal, lb *label, c *caller, reason string) {
	ev := audit.Event{
		Time: time.Now(), Event: "refusal", Path: x.Path, PID: c.Owner().PID, Actor: lb.shownActor(),
		Detail: map[string]any{"operation": x.Op, "errno": unix.ErrnoName(x.Errno), "reason": reason, "program": c.Program(), "uid": c.UID()},
	}
	if x.Name != "" {
		ev.Detail["lock_name"] = x.Name
	}
	if x.Wait > 0 {
		ev.Detail["waited_seconds"] = x.Wait.Seconds()
	}
	if x.Holder != nil {
		ev.Detail["held_by"] = map[string]any{"pid": x.Holder.Owner.PID, "program": x.Holder.Program, "operation": x.Holder.Operation, "session": x.Holder.Session}
	}
	rp.event(ev)
}

// refuseWith refuses an operation of the caller's with an errno, and keeps for .locks/why the
// reason and what to do about it.
func (rp *reports) refuseWith(c *caller, op, path string, e unix.Errno, reason, hint string) unix.Errno {
	rp.explain(refusals.Refusal{Path: path, Op: op, Errno: e, Owner: c.Owner(), UID: c.UID(), Reason: reason, Hint: hint})
	return e
}

// explain keeps a refusal for .locks/why.
func (rp *reports) explain(x refusals.Refusal) {
	x.At = time.Now()
	if x.Lineage == nil && x.Owner.PID != 0 {
		x.Lineage = rp.callers.proc.Lineage(x.Owner.PID)
	}
	rp.refused.Add(x)
	rp.disk.log.Infof("%s of %q by pid %d refused: %s %s", x.Op, x.Path, x.Owner.PID, unix.ErrnoName(x.Errno), x.Reason)
}

// event writes to the audit trail; a trail that cannot be written must not
// stop the filesystem.
func (rp *reports) event(ev audit.Event) {
	switch ev.Event {
	case "refusal":
		if !rp.told(&ev) {
			return
		}
	case "unmount":
		rp.tellOmitted(true)
	}
	rp.writeEvent(ev)
}

func (rp *reports) writeEvent(ev audit.Event) {
	if rp.trail == nil {
		return
	}
	err := rp.trail.Append(ev)
	if failed := err != nil; rp.trailFails.Swap(failed) == failed || rp.life.isStopping() {
		return // that is told already
	}
	if err != nil {
		rp.disk.log.Warnf("audit trail: %v; how many events are lost is in the next that can be written", err)
	}
}

// isReadOnly refuses to change what has a name, if the policy says that nobody does: EROFS.
func (rp *reports) isReadOnly(h *Request, op string, dir *inode, name string) unix.Errno {
	path := rp.nodes.path(dir, name)
	set := rp.rules.settings(path)
	if set.Mode != policy.ReadOnly {
		return 0
	}
	return rp.refuseReadOnly(h, op, path, &set)
}

// refuseReadOnly refuses to change what has settings of mode readonly.
func (rp *reports) refuseReadOnly(h *Request, op, path string, set *policy.Settings) unix.Errno {
	return rp.explainReadOnly(h, op, path, fmt.Sprintf(`The policy says that nobody changes it (mode = "readonly", by %s)`, printable.Line(set.Rule)))
}

func (rp *reports) explainReadOnly(h *Request, op, path, reason string) unix.Errno {
	c := rp.callers.callerOf(h)
	return rp.refuseWith(c, op, path, unix.EROFS, reason, ".locks/policy has the rules in force.")
}

// sessionEvent writes an event about the session to the audit trail.
func (rp *reports) sessionEvent(s *session, event string, fill func(*audit.Event)) {
	id := s.who.Load()
	ev := audit.Event{
		Time: time.Now(), Event: event, Path: s.path(), Session: s.id,
		PID: id.Owner().PID, Token: s.lock.Token(),
		Detail: map[string]any{"program": s.program(), "uid": s.uid},
	}
	if lb, ok := s.lock.Request().Label.(*label); ok {
		ev.Actor = lb.shownActor()
	}
	fill(&ev)
	rp.event(ev)
}
