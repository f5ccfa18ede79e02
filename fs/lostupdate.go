package fs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// lostUpdate is a change that is based on a version which has been replaced since.
type lostUpdate struct {
	f       *FS
	path    string
	op      string
	set     *policy.Settings
	b       knowledge.Basis
	owner   lockmgr.Owner
	self    lockmgr.Owner // owner, or what stands for it in the table
	uid     uint32
	program string
	by      knowledge.Author
	lineage []lockmgr.Ancestor
	source  *sourceFile // of a rename; nil of other changes
	hint    string      // what to do about it; "": what follows from the rest
	apart   string      // why it cannot be merged, where the policy says so
	back    bool        // the file was removed to be replaced, and has its name back
}

// sourceFile is the file that a rename puts in the place of another.
type sourceFile struct {
	path    string
	writers []lockmgr.Owner
	author  knowledge.Author // the process that wrote it
	over    string           // the file that it was to replace, if it is path itself that has changed
}

// answer does what the policy says: 0 lets it happen.
func (x *lostUpdate) answer() unix.Errno {
	switch {
	case x.set.LostUpdate == policy.WarnLost:
		x.obey("the policy only warns")
		return 0
	case x.insists():
		x.obey("it was refused before, and tried again")
		return 0
	}
	x.record("conflict", unix.EBUSY)
	x.refused()
	r := refusals.Refusal{
		Path: x.path, Op: x.op, Errno: unix.EBUSY, Reason: x.whole(), Hint: cmp.Or(x.hint, x.advice()),
		Owner: x.owner, UID: x.uid, Lineage: x.lineage, Of: x,
	}
	if x.hint == "" && x.source != nil && x.source.over == "" {
		r.Temporary, r.WithoutIt = x.source.path, x.adviceWithoutSource()
	}
	x.f.explain(r)
	return unix.EBUSY
}

// insists reports whether the change was refused before, is made again, and is to be
// obeyed for that.
func (x *lostUpdate) insists() bool {
	return x.b.Insists && x.set.Insist == policy.ObeyInsisting && x.set.LostUpdate != policy.StrictLost
}

// obey lets the change happen, loudly.
func (x *lostUpdate) obey(why string) {
	x.f.knowledge.Obeyed(time.Now(), &x.b)
	x.event("lost_update", map[string]any{"obeyed": why})
	x.f.log.Warnf("%s of %q by pid %d replaces a version that it has not read (%s): %s", x.op, x.path, x.owner.PID, why, x.reason())
}

// refused notes the refusal: the next attempt may be one to insist.
func (x *lostUpdate) refused() { x.f.knowledge.Refused(time.Now(), &x.b, x.self) }

// advice says what to do about a refusal.
func (x *lostUpdate) advice() string {
	file := printable.Line(x.path)
	var text string
	switch {
	case x.source != nil && x.source.over != "":
		text = "Nothing was renamed. Write the new content to a temporary file whose name no other program uses, and rename that."
	case x.source != nil:
		temp := printable.Line(x.source.path)
		text = fmt.Sprintf("Nothing was renamed. Run the command that wrote %s again, so that it starts from %s, and rename %s only then.",
			temp, x.newer(), temp)
	case x.b.Newer.Stamp == knowledge.Stamp{}:
		text = "Nothing has changed. Look whether the file is still wanted, and run the command again."
	case x.op == opUnlink, x.op == opRename:
		text = file + " was left as it is. Read " + x.newer() + ", and run the command again if it is still right."
	default:
		text = file + " was left as it is. To start from " + x.newer() +
			", reload it in the program, or run the command again if that reads it."
	}
	if x.set.Insist == policy.ObeyInsisting && x.set.LostUpdate != policy.StrictLost && (x.source == nil || x.source.over == "") {
		again := "write it again without reading it"
		if x.source != nil {
			again = "rename " + printable.Line(x.source.path) + " again as it is"
		}
		text += " To overwrite " + x.newer() + " on purpose, " + again + ", one second to ten minutes from now"
		if x.f.keepsHistory(*x.set) {
			text += "; `latchfs history " + file + "` will still have it"
		}
		text += "."
	}
	return text
}

// adviceWithoutSource is advice for a rename whose temporary file is no longer there.
func (x *lostUpdate) adviceWithoutSource() string {
	temp := printable.Line(x.source.path)
	return fmt.Sprintf("Nothing was renamed, and %s is no longer there. Run the command that wrote it again, so that it starts from %s.", temp, x.newer())
}

// adviceOn is advice for a commit whose bytes are kept under id; "" of nil.
func (x *lostUpdate) adviceOn(id string) string {
	switch {
	case x == nil:
		return ""
	case id == "":
		return x.advice()
	}
	return fmt.Sprintf("%s `latchfs rejected diff %s` shows what was written beside the file as it is now.", x.advice(), id)
}

// newer names the version that somebody else has made.
func (x *lostUpdate) newer() string {
	if n := x.number(x.b.Newer.Stamp, x.b.Newer.Number); n != 0 && x.b.Newer.Stamp != (knowledge.Stamp{}) {
		return "version " + strconv.FormatUint(n, 10)
	}
	return "the present version"
}

// known names the version that the decider knows.
func (x *lostUpdate) known() string {
	if n := x.number(x.b.Stamp, x.b.Version); n != 0 {
		return "version " + strconv.FormatUint(n, 10)
	}
	return "an earlier version"
}

// reason says what is the matter, for people: which file has changed, which version
// this program started from, and who has made the newer one.
func (x *lostUpdate) reason() string { return x.reasonWith(true) }

func (x *lostUpdate) reasonWith(labels bool) string {
	file := printable.Line(x.path)
	at := x.b.At.Format(time.TimeOnly)
	verb, done := "read", "read"
	if x.b.Made {
		verb, done = "wrote", "written"
	}
	since, start := x.decider(verb, done)
	if x.source != nil && x.source.over != "" {
		file += ", which was to be renamed to " + printable.Line(x.source.over) + ","
	}
	return fmt.Sprintf("%s has changed since %s. %s %s %s at %s; %s.", file, since, start, verb, x.known(), at, x.replaced(labels))
}

// decider tells since which deed the file has changed: whose, in a clause, with the verb
// in the past tense or its participle, and at the beginning of the next sentence.
func (x *lostUpdate) decider(verb, done string) (since, start string) {
	o := x.b.By
	name := x.processName(o)
	switch {
	case o == x.owner:
		return "this program " + verb + " it", "It"
	case x.source != nil && slices.Contains(x.source.writers, o):
		temp := printable.Line(x.source.path)
		if o.PID != x.source.author.PID {
			return fmt.Sprintf("%s, which started the program that wrote %s, %s it", name, temp, verb), name
		}
		return fmt.Sprintf("%s, which wrote %s, %s it", name, temp, verb), name
	case slices.ContainsFunc(x.ancestors(), func(a lockmgr.Ancestor) bool { return a.Owner == o }):
		// It itself, or what it has started: what is known is known of all of them.
		return fmt.Sprintf("it was %s by %s, which started this program, or by another program that %s started", done, name, name), "One of them"
	}
	return name + " " + verb + " it", name
}

// ancestors are those of the process whose change it is.
func (x *lostUpdate) ancestors() []lockmgr.Ancestor {
	if x.lineage == nil && x.owner.PID > 0 {
		x.lineage = x.f.proc.Lineage(x.owner.PID)
	}
	return x.lineage
}

// processName is a process as people write it: bash[1234].
func (x *lostUpdate) processName(o lockmgr.Owner) string {
	switch {
	case o == stranger:
		return "a program in another pid namespace"
	case x.source != nil && o.PID == x.source.author.PID:
		return fmt.Sprintf("%s[%d]", printable.Line(x.source.author.Program), o.PID)
	case !x.f.proc.Alive(o):
		return fmt.Sprintf("process %d", o.PID)
	}
	return fmt.Sprintf("%s[%d]", printable.Line(x.f.proc.Program(o.PID)), o.PID)
}

// replaced says who has made the newer version, and when.
func (x *lostUpdate) replaced(labels bool) string {
	c := &x.b.Newer
	at := c.Author.Time.Format(time.TimeOnly)
	text := x.authorName(&c.Author, labels)
	switch {
	case c.Stamp == knowledge.Stamp{} && c.Author.PID == 0 && c.Author.Program == "":
		text = "it was removed outside the mount, as seen at " + at
	case c.Stamp == knowledge.Stamp{}:
		text += " removed it at " + at
	case c.Author.PID == 0 && c.Author.Program == "":
		text = "it was changed outside the mount, as seen at " + at
	case x.back: // and has got a number of its own by that
		text += fmt.Sprintf(" saved what is now %s at %s (it was removed since, and has been put back)", x.newer(), at)
	default:
		text += fmt.Sprintf(" saved %s at %s", x.newer(), at)
	}
	if n := len(x.b.Since); n > 1 && c.Number == x.b.Current {
		text += fmt.Sprintf(", the last of %d changes", n)
	}
	return text
}

// whole is the reason, and why nothing was merged.
func (x *lostUpdate) whole() string { return x.wholeWith(true) }

// public is whole without labels, for whoever may read the refused bytes.
func (x *lostUpdate) public() string { return x.wholeWith(false) }

func (x *lostUpdate) wholeWith(labels bool) string {
	if x.apart == "" {
		return x.reasonWith(labels)
	}
	return x.reasonWith(labels) + " The two changes cannot be merged: " + x.apart + "."
}

// authorName is who made a version, for the user whose change was refused. A label is
// shown to nobody but its own user, root and the mount's owner.
func (x *lostUpdate) authorName(a *knowledge.Author, labels bool) string {
	name := printable.Line(a.Program)
	if a.PID != 0 {
		name = fmt.Sprintf("%s[%d]", name, a.PID)
	}
	switch {
	case a.PID == 0 && a.Program == "":
		return "somebody outside the mount"
	case a.Actor == "":
		return name
	case !labels || a.UID != x.uid && !seesEverything(x.uid):
		return fmt.Sprintf("%s (uid %d)", name, a.UID)
	case a.PID == 0:
		return printable.Line(a.Actor)
	}
	return fmt.Sprintf("%s (%s)", name, printable.Line(a.Actor))
}

// number is the version's number in the history, where it has one; otherwise the
// table's own.
func (x *lostUpdate) number(stamp knowledge.Stamp, own uint64) uint64 {
	if x.f.history == nil {
		return own
	}
	for v := range x.f.history.NewestOf(x.path) {
		if v.State == (history.State{Ino: stamp.Ino, Size: stamp.Size, Mtime: stamp.Mtime}) {
			return v.Number
		}
	}
	if x.f.history.Known(x.path) {
		return 0 // no longer there, and two ways of counting would confuse
	}
	return own
}

// record writes the refusal to the audit trail.
func (x *lostUpdate) record(event string, e unix.Errno) {
	d := map[string]any{}
	if e != 0 {
		d["errno"] = unix.ErrnoName(e)
	}
	x.event(event, d)
}

// event writes to the audit trail what is the matter, beside d.
func (x *lostUpdate) event(event string, d map[string]any) {
	d["operation"], d["program"], d["uid"], d["reason"] = x.op, x.program, x.uid, x.reason()
	d["base"], d["read_by"], d["read_at"] = x.number(x.b.Stamp, x.b.Version), x.b.By.PID, x.b.At.UTC().Format(time.RFC3339Nano)
	if x.source != nil {
		d["source"] = x.source.path
	}
	if x.apart != "" {
		d["not_merged"] = x.apart
	}
	if c := &x.b.Newer; x.b.Stale {
		d["current"] = x.number(c.Stamp, c.Number)
		d["changed_by"] = map[string]any{"pid": c.Author.PID, "program": c.Author.Program, "actor": c.Author.Actor}
	}
	x.f.event(audit.Event{Time: time.Now(), Event: event, Path: x.path, PID: x.owner.PID, Actor: x.by.Actor, Detail: d})
}
