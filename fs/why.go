package fs

import (
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/locksdir"
	"latchfs/journal"
	"latchfs/journal/validate"
	"latchfs/lockmgr"
)

// maxRefusals is how many refusals .locks/why remembers.
const maxRefusals = 1000

// refusal is one operation that was answered with an error, and for whom.
type refusal struct {
	at      time.Time
	path    string
	name    string // of a lock that stands for no file
	op      string
	errno   unix.Errno
	wait    time.Duration
	reason  string
	kept    string
	verdict *validate.Refusal // why content was not accepted
	hint    string            // beside what follows from the rest
	holder  *locksdir.Record
	owner   lockmgr.Owner
	uid     uint32
	lineage []lockmgr.Ancestor
	// temporary is the file that was to be renamed, and withoutIt the hint if that is
	// no longer there: many programs remove what they could not rename.
	temporary, withoutIt string
	// of is the lost update that was refused; nil of other refusals. A close that tells
	// of the same again has more to say.
	of *lostUpdate
}

// refusals is a ring of the latest.
type refusals struct {
	mu   sync.Mutex // guards what follows
	list []refusal
	next int
}

func (r *refusals) add(x refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.list, func(old refusal) bool { return x.of != nil && old.of == x.of }); i >= 0 {
		r.list[i] = x
		return
	}
	if len(r.list) < maxRefusals {
		r.list = append(r.list, x)
		return
	}
	r.list[r.next] = x
	r.next = (r.next + 1) % maxRefusals
}

func (r *refusals) each(fn func(*refusal)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		fn(&r.list[i])
	}
}

// refuse turns a failed lock request into an errno, and records it for
// .locks/why and the audit trail. An interrupted wait is no refusal.
func (f *FS) refuse(d *demand, err error) unix.Errno {
	e := lockErrno(err)
	if e == unix.EINTR || e == unix.ENAMETOOLONG {
		return e
	}
	x := refusal{path: d.path, op: d.op, errno: e, reason: denied.Reason(err), owner: d.c.owner, uid: d.c.uid, lineage: d.c.ancestors()}
	if errors.Is(err, denied.ErrTimeout) {
		x.wait = d.wait
	}
	var stolen *denied.Fenced
	if errors.As(err, &stolen) {
		x.hint = stolen.Hint()
	}
	if hs := denied.Holders(err); len(hs) > 0 {
		x.path = contended(d, &hs[0])
		r := f.record(&hs[0], x.path)
		x.holder, x.reason = &r, denied.BesidesHolder(err)
		if lb, ok := hs[0].Label.(*label); ok && lb.claim != nil && !d.c.foreign() {
			x.hint = "If this process works for the holder, start it with " + control.SessionEnv + "=" + lb.id() + "."
		}
	}
	f.explain(x)
	f.refusalEvent(&x, &label{c: d.c}, d.c, denied.Reason(err))
	return e
}

// refusalEvent writes a refusal of a lock to the audit trail; lb is the label with
// which the caller asked for it.
func (f *FS) refusalEvent(x *refusal, lb *label, c *caller, reason string) {
	ev := journal.Event{
		Time: time.Now(), Event: "refusal", Path: x.path, PID: c.owner.PID, Actor: f.actorOf(lb),
		Detail: map[string]any{"operation": x.op, "errno": unix.ErrnoName(x.errno), "reason": reason, "program": c.program(), "uid": c.uid},
	}
	if x.name != "" {
		ev.Detail["lock_name"] = x.name
	}
	if x.wait > 0 {
		ev.Detail["waited_seconds"] = x.wait.Seconds()
	}
	if x.holder != nil {
		ev.Detail["held_by"] = map[string]any{"pid": x.holder.Owner.PID, "program": x.holder.Program, "operation": x.holder.Operation, "session": x.holder.Session}
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

// explain keeps a refusal for .locks/why.
func (f *FS) explain(x refusal) {
	x.at = time.Now()
	if x.lineage == nil && x.owner.PID != 0 {
		x.lineage = f.proc.Lineage(x.owner.PID)
	}
	f.whys.add(x)
	f.log.Infof("%s of %q by pid %d refused: %s %s", x.op, x.path, x.owner.PID, unix.ErrnoName(x.errno), x.reason)
}

// event writes to the audit trail; a trail that cannot be written must not
// stop the filesystem.
func (f *FS) event(ev journal.Event) {
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

func (f *FS) writeEvent(ev journal.Event) {
	if f.journal == nil {
		return
	}
	if err := f.journal.Event(ev); err != nil && !f.isClosing() {
		f.log.Warnf("audit trail: %v", err)
	}
}

// relatedGenerations is how far up a common ancestor may be for a refusal to
// concern whoever reads .locks/why.
const relatedGenerations = 4

// related reports whether viewer and refused process belong together: they are of the
// same user, unless the viewer sees everything, and one is the other's ancestor, or they
// share a near one. Pid 1 relates everybody and therefore nobody. Of those in another
// pid namespace nothing is known but the user.
func (x *refusal) related(v locksdir.Viewer) bool {
	if !v.Privileged && v.UID != x.uid {
		return false // one sshd or cron is everybody's ancestor
	}
	if v.PID == 0 {
		return x.owner.PID == 0
	}
	mine := map[lockmgr.Owner]bool{x.owner: true}
	for i, a := range x.lineage {
		if i >= relatedGenerations || a.Owner.PID <= 1 {
			break
		}
		mine[a.Owner] = true
	}
	for i, p := range v.Lineage {
		if i > relatedGenerations || p.PID <= 1 {
			break
		}
		if mine[lockmgr.Owner{PID: p.PID, Start: p.Start}] {
			return true
		}
	}
	return false
}
