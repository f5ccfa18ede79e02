package fs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
)

// refuse turns a failed lock request into an errno, and records it for
// .locks/why and the audit trail. An interrupted wait is no refusal.
func (f *FS) refuse(d *demand, err error) unix.Errno {
	e := lockErrno(err)
	if e == unix.EINTR || e == unix.ENAMETOOLONG {
		return e
	}
	x := refusals.Refusal{Path: d.path, Op: d.op, Errno: e, Reason: denied.Reason(err), Owner: d.c.owner, UID: d.c.uid, Lineage: d.c.ancestors()}
	if errors.Is(err, denied.ErrTimeout) {
		x.Wait = d.wait
	}
	var stolen *denied.Fenced
	switch {
	case errors.As(err, &stolen):
		x.Hint = stolen.Hint()
	case errors.Is(err, errNodeShared):
		x.Hint = "Open it by its name, or close the other descriptor first."
	}
	if hs := denied.Holders(err); len(hs) > 0 {
		x.Path = contended(d, &hs[0])
		r := f.record(&hs[0], x.Path)
		x.Holder, x.Reason = &r, denied.BesidesHolder(err)
		if lb, ok := hs[0].Label.(*label); ok && lb.claim != nil && r.ClaimFile == "" && !d.c.foreign() {
			x.Hint = "If this process works for the holder, start it with " + control.SessionEnv + "=" + lb.id() + "."
		}
	}
	f.explain(x)
	f.refusalEvent(&x, &label{c: d.c}, d.c, denied.Reason(err))
	return e
}

// refusalEvent writes a refusal of a lock to the audit trail; lb is the label with
// which the caller asked for it.
func (f *FS) refusalEvent(x *refusals.Refusal, lb *label, c *caller, reason string) {
	ev := audit.Event{
		Time: time.Now(), Event: "refusal", Path: x.Path, PID: c.owner.PID, Actor: f.actorOf(lb),
		Detail: map[string]any{"operation": x.Op, "errno": unix.ErrnoName(x.Errno), "reason": reason, "program": c.program(), "uid": c.uid},
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
	f.event(ev)
}

// contended is the one of several names that the holder has.
func contended(d *demand, h *lockmgr.Holder) string {
	for _, p := range d.places {
		for _, k := range h.Keys {
			if string(k) == d.c.f.path(p.dir, p.name) {
				return string(k)
			}
		}
	}
	return d.path
}

// refuseWith refuses an operation of the caller's with an errno, and keeps for .locks/why the
// reason and what to do about it.
func (f *FS) refuseWith(c *caller, op, path string, e unix.Errno, reason, hint string) unix.Errno {
	f.explain(refusals.Refusal{Path: path, Op: op, Errno: e, Owner: c.owner, UID: c.uid, Reason: reason, Hint: hint})
	return e
}

// explain keeps a refusal for .locks/why.
func (f *FS) explain(x refusals.Refusal) {
	x.At = time.Now()
	if x.Lineage == nil && x.Owner.PID != 0 {
		x.Lineage = f.proc.Lineage(x.Owner.PID)
	}
	f.refused.Add(x)
	f.log.Infof("%s of %q by pid %d refused: %s %s", x.Op, x.Path, x.Owner.PID, unix.ErrnoName(x.Errno), x.Reason)
}

// event writes to the audit trail; a trail that cannot be written must not
// stop the filesystem.
func (f *FS) event(ev audit.Event) {
	switch ev.Event {
	case "refusal":
		if !f.told(&ev) {
			return
		}
	case "unmount":
		f.tellOmitted(true)
	}
	f.writeEvent(ev)
}

func (f *FS) writeEvent(ev audit.Event) {
	if f.trail == nil {
		return
	}
	err := f.trail.Append(ev)
	if failed := err != nil; f.trailFails.Swap(failed) == failed || f.isClosing() {
		return // that is told already
	}
	if err != nil {
		f.log.Warnf("audit trail: %v; how many events are lost is in the next that can be written", err)
	}
}
