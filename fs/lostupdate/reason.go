package lostupdate

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"latchfs/fs/printable"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// newer names the version that somebody else has made.
func (l *Loss) newer() string {
	if n := l.number(l.Basis.Newer.Stamp, l.Basis.Newer.Number); n != 0 && l.Basis.Newer.Stamp != (knowledge.Stamp{}) {
		return "version " + strconv.FormatUint(n, 10)
	}
	return "the present version"
}

// known names the version that the decider knows.
func (l *Loss) known() string {
	if n := l.number(l.Basis.Stamp, l.Basis.Version); n != 0 {
		return "version " + strconv.FormatUint(n, 10)
	}
	return "an earlier version"
}

// Reason says what is the matter, for people: which file has changed, which version
// this program started from, and who has made the newer one.
func (l *Loss) Reason() string { return l.reasonWith(true) }

func (l *Loss) reasonWith(labels bool) string {
	file := printable.Line(l.Path)
	at := l.Basis.At.Format(time.TimeOnly)
	verb, done := "read", "read"
	if l.Basis.Made {
		verb, done = "wrote", "written"
	}
	if l.Basis.Used {
		verb, done = "opened or appended to", "opened or appended to"
	}
	since, start := l.decider(deed{verb + " it", done})
	if l.Basis.Absent {
		since, start = l.decider(l.withoutFile())
	}
	if l.Source != nil && l.Source.Over != "" {
		file += ", which was to be renamed to " + printable.Line(l.Source.Over) + ","
	}
	what := verb + " " + l.known()
	if l.Basis.Absent {
		what = "did so" // there was no version
	}
	return fmt.Sprintf("%s has changed since %s. %s %s at %s; %s.", file, since, start, what, at, l.replaced(labels))
}

// deed is what the decider has done, in the past tense with its object, and as a participle.
type deed struct{ past, done string }

// withoutFile is how the decider knows that there was no file.
func (l *Loss) withoutFile() deed {
	if l.Basis.Own || l.Basis.Made {
		return deed{"removed or renamed it", "removed or renamed"}
	}
	return deed{"saw that it was not there", "seen not to be there"}
}

// decider tells since which deed the file has changed: whose, in a clause, and at the beginning
// of the next sentence.
func (l *Loss) decider(d deed) (since, start string) {
	o := l.Basis.By
	name := l.processName(o)
	switch {
	case o == l.Owner:
		return "this program " + d.past, "It"
	case l.Source != nil && slices.Contains(l.Source.Writers, o):
		temp := printable.Line(l.Source.Path)
		if o.PID != l.Source.Author.PID {
			return fmt.Sprintf("%s, which started the program that wrote %s, %s", name, temp, d.past), name
		}
		return fmt.Sprintf("%s, which wrote %s, %s", name, temp, d.past), name
	case slices.ContainsFunc(l.ancestors(), func(a lockmgr.Ancestor) bool { return a.Owner == o }):
		// It itself, or what it has started: what is known is known of all of them.
		return fmt.Sprintf("it was %s by %s, which started this program, or by another program that %s started", d.done, name, name), "One of them"
	}
	return name + " " + d.past, name
}

// ancestors are those of the process whose change it is.
func (l *Loss) ancestors() []lockmgr.Ancestor {
	if l.Lineage == nil && l.Owner.PID > 0 {
		l.Lineage = l.j.Procs.Lineage(l.Owner.PID)
	}
	return l.Lineage
}

// processName is a process as people write it: bash[1234].
func (l *Loss) processName(o lockmgr.Owner) string {
	switch {
	case o == Stranger:
		return "a program in another pid namespace"
	case l.Source != nil && o.PID == l.Source.Author.PID:
		return fmt.Sprintf("%s[%d]", printable.Line(l.Source.Author.Program), o.PID)
	case !l.j.Procs.Alive(o):
		return fmt.Sprintf("process %d", o.PID)
	}
	return fmt.Sprintf("%s[%d]", printable.Line(l.j.Procs.Program(o.PID)), o.PID)
}

// replaced says who has made the newer version, and when.
func (l *Loss) replaced(labels bool) string {
	c := &l.Basis.Newer
	at := c.Author.Time.Format(time.TimeOnly)
	text := l.authorName(&c.Author, labels)
	switch {
	case c.Stamp == knowledge.Stamp{} && c.Author.PID == 0 && c.Author.Program == "":
		text = "it was removed outside the mount" + seenAt(&c.Author)
	case c.Stamp == knowledge.Stamp{}:
		text += " removed it at " + at
	case c.Author.PID == 0 && c.Author.Program == "":
		text = "it was changed outside the mount" + seenAt(&c.Author)
	case l.Back: // and has got a number of its own by that
		text += fmt.Sprintf(" saved what is now %s at %s (it was removed since, and has been put back)", l.newer(), at)
	default:
		text += fmt.Sprintf(" saved %s at %s", l.newer(), at)
	}
	if n := len(l.Basis.Since); n > 1 && c.Number == l.Basis.Current {
		text += fmt.Sprintf(", the last of %d changes", n)
	}
	return text
}

// seenAt says when a change outside the mount was noticed. Where nobody knows, as of a change
// of which only the newer version is left, it says nothing, and not midnight.
func seenAt(a *knowledge.Author) string {
	if a.Time.IsZero() {
		return ""
	}
	return ", as seen at " + a.Time.Format(time.TimeOnly)
}

// Whole is the reason, and why nothing was merged.
func (l *Loss) Whole() string { return l.wholeWith(true) }

// Public is Whole without labels, for whoever may read the refused bytes.
func (l *Loss) Public() string { return l.wholeWith(false) }

func (l *Loss) wholeWith(labels bool) string {
	if l.Apart == "" {
		return l.reasonWith(labels)
	}
	return l.reasonWith(labels) + " The two changes cannot be merged: " + l.Apart + "."
}

// authorName is who made a version, for the user whose change was refused. A label is
// shown to nobody but its own user, root and the mount's owner.
func (l *Loss) authorName(a *knowledge.Author, labels bool) string {
	name := printable.Line(a.Program)
	if a.PID != 0 {
		name = fmt.Sprintf("%s[%d]", name, a.PID)
	}
	switch {
	case a.PID == 0 && a.Program == "":
		return "somebody outside the mount"
	case a.Actor == "":
		return name
	case !labels || a.UID != l.By.UID && !l.j.Engine.SeesEverything(l.By.UID):
		return fmt.Sprintf("%s (uid %d)", name, a.UID)
	case a.PID == 0:
		return printable.Line(a.Actor)
	}
	return fmt.Sprintf("%s (%s)", name, printable.Line(a.Actor))
}
