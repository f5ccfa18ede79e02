package lostupdate

import (
	"bytes"
	"io"
	"slices"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Loss is a change that is based on a version which has been replaced since.
type Loss struct {
	Change
	Maker
	Basis  knowledge.Basis
	Source *Source // of a rename; nil of other changes
	Apart  string  // why it cannot be merged, where the policy says so
	Back   bool    // the file was removed to be replaced, and has its name back

	j *Judge
}

// Source is the file that a rename puts in the place of another.
type Source struct {
	Path    string
	Writers []lockmgr.Owner
	Author  knowledge.Author // the process that wrote it
	Over    string           // the file that it was to replace, if it is Path itself that has changed
}

// Answer does what the policy says, and reports whether the change happens.
func (l *Loss) Answer() (happens bool) {
	switch {
	case l.Set.LostUpdate == policy.WarnLost:
		l.obey("the policy only warns")
		return true
	case l.Insists():
		l.obey("it was refused before, and tried again")
		return true
	}
	l.Refuse()
	l.j.Engine.Explain(l)
	return false
}

// AnswerRemoved is the answer to a change that takes the place of a file removed a moment
// ago. Where it is refused the file gets its name back: that the old version stays is
// promised. Where that cannot be, a refusal would leave nothing at all under the name,
// and the change is made, loudly. Where another worker of its script has removed the file, and
// this one makes it only if the name is free, that was no step of this change: so two workers
// take turns with a lock file.
func (l *Loss) AnswerRemoved(putBack func() bool) (happens bool) {
	if l.isAnothersRemoval() {
		return true
	}
	if l.isRefused() && !putBack() {
		l.obey("what it replaces was removed before, and cannot be put back")
		return true
	}
	return l.Answer()
}

// isAnothersRemoval reports whether the process that has read the file, and makes it anew now
// by itself or by a descendant, has not removed it so. If its script knows of it by another
// program, all that the script's programs do are steps of one change (jq, rm, mv).
func (l *Loss) isAnothersRemoval() bool {
	by := l.Basis.By
	return l.Exclusive && l.worksFor(by) && l.j.Known.RemovedWithout(l.key(), by)
}

// AnswerGone is the answer to a change that puts nothing in the place of the file. A decider
// that knew that there was none does not undo anything.
func (l *Loss) AnswerGone() (happens bool) { return l.Basis.Absent || l.Answer() }

// AnswerUnread is the answer to the commit of what was written over a version that its
// writer has not read. What is refused is explained when its bytes are kept.
func (l *Loss) AnswerUnread() (happens bool) {
	if l.isRefused() {
		l.Refuse()
		return false
	}
	l.obey("its writer never read it")
	return true
}

// Insists reports whether the change was refused before, is made again, and is to be
// obeyed for that.
func (l *Loss) Insists() bool {
	return l.Basis.Insists && l.mayInsist() && !(l.Basis.ForAnother && l.isDeciders())
}

// isDeciders reports whether the process that makes the change is its decider, or works for it;
// otherwise it puts in place what the decider has written.
func (l *Loss) isDeciders() bool {
	by := l.Basis.By
	return l.worksFor(by) || by == l.Who.Shell || !slices.Contains(l.Writers, by)
}

// worksFor reports whether the process that makes the change is another one, or a descendant of
// it that shares what it knows.
func (l *Loss) worksFor(o lockmgr.Owner) bool {
	return o == l.Self || slices.Contains(l.Who.Relatives, o)
}

// mayInsist reports whether the policy obeys a change that is made again.
func (l *Loss) mayInsist() bool {
	return l.Set.Insist == policy.ObeyInsisting && l.Set.LostUpdate != policy.StrictLost
}

// isRefused reports whether Answer refuses the change.
func (l *Loss) isRefused() bool { return l.Set.LostUpdate != policy.WarnLost && !l.Insists() }

// obey lets the change happen, loudly.
func (l *Loss) obey(why string) {
	l.j.Known.Obeyed(time.Now(), &l.Basis)
	l.j.Engine.Obeyed(l, why)
}

// Refuse notes that the change is refused: the next attempt may be one to insist. What its
// process is told is the caller's business.
func (l *Loss) Refuse() {
	l.j.Engine.Conflict(l)
	l.j.Known.Refused(time.Now(), &l.Basis, l.Self, !l.isDeciders())
}

// Renew finds out what the chain of the change knows by now; false if nothing would be lost
// any more.
func (l *Loss) Renew(now *Change) (stale bool) {
	b := l.j.Basis(now)
	if b.Stale {
		l.Basis = b
	}
	return b.Stale
}

// MaxPutBack bounds the files that IsPutBack compares, for which the kernel keeps the
// directory locked.
const MaxPutBack = 64 << 20

// ComesBack reports whether the file with the stamp was a version of the path, and nobody
// but the same script has changed that since: it was renamed away before, as a backup.
func (l *Loss) ComesBack(stamp knowledge.Stamp, who knowledge.Who) bool {
	return l.j.Known.OursSince(l.key(), stamp, who)
}

// MayPutBack reports whether a file of some size may hold the version that was known, after
// changes that the script has made itself, and under which number the history has that:
// it takes them back with the copy that was made before. Anything else that is based
// on that version would undo changes that it does not know of.
func (l *Loss) MayPutBack(size int64) (number uint64, ok bool) {
	if !l.Basis.IsUndo(l.Who, l.Writers) || size != l.Basis.Stamp.Size || size > MaxPutBack {
		return 0, false
	}
	number = l.number(l.Basis.Stamp, 0)
	return number, number != 0
}

// IsPutBack reports whether two files hold the same, to the byte.
func IsPutBack(a, b io.Reader) bool {
	const block = 64 << 10
	x, y := make([]byte, block), make([]byte, block)
	for {
		n, e := io.ReadFull(a, x)
		m, e2 := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if e != nil || e2 != nil {
			return isEnd(e) && isEnd(e2)
		}
	}
}

func isEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// number is the version's number in the history, where it has one; otherwise the
// table's own.
func (l *Loss) number(stamp knowledge.Stamp, own uint64) uint64 {
	if n, counts := l.j.Engine.Number(l.Path, stamp); counts {
		return n
	}
	return own
}

// Detail is what an event of the audit trail says of the loss.
func (l *Loss) Detail() map[string]any {
	b := &l.Basis
	d := map[string]any{
		"operation": l.Op, "program": l.By.Program, "uid": l.By.UID, "reason": l.Reason(),
		"base": l.number(b.Stamp, b.Version), "read_by": b.By.PID, "read_at": b.At.UTC().Format(time.RFC3339Nano),
	}
	if l.Source != nil {
		d["source"] = l.Source.Path
	}
	if l.Apart != "" {
		d["not_merged"] = l.Apart
	}
	if c := &b.Newer; b.Stale {
		d["current"] = l.number(c.Stamp, c.Number)
		d["changed_by"] = map[string]any{"pid": c.Author.PID, "program": c.Author.Program, "actor": c.Author.Actor}
	}
	return d
}
