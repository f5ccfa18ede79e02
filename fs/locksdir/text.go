package locksdir

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"latchfs/fs/printable"
)

// displayPath is Display for a path relative to the root, which is itself ".".
func displayPath(path string) string {
	if path == "" {
		return "."
	}
	return printable.Line(path)
}

// fit shortens text to at most width characters. It cuts in the middle and
// keeps more of the end, where paths differ.
func fit(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s
	}
	head := (width - 1) / 3
	tail := width - 1 - head
	return s[:runeOffset(s, head)] + "…" + s[runeOffset(s, n-tail):]
}

// runeOffset is the byte offset of the n-th character of s.
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// age writes a duration for people: two units at most, rounded down.
func age(d time.Duration) string {
	switch s := int64(d / time.Second); {
	case s < 1:
		return "<1s"
	case s < 60:
		return strconv.FormatInt(s, 10) + "s"
	case s < 3600:
		return twoUnits(s/60, "m", s%60, "s")
	case s < 24*3600:
		return twoUnits(s/3600, "h", s/60%60, "m")
	default:
		return twoUnits(s/(24*3600), "d", s/3600%24, "h")
	}
}

func twoUnits(a int64, unitA string, b int64, unitB string) string {
	return strconv.FormatInt(a, 10) + unitA + strconv.FormatInt(b, 10) + unitB
}

// moment writes a time for a table that is read at now: the time of day, with
// the date when it was another day.
func moment(t, now time.Time) string {
	t = t.In(now.Location())
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format("Jan _2 15:04")
}

// plural writes "1 lock", "2 locks".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// id is the name or the path under which a record is one lock.
func (r *Record) id() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Path
}

func (r *Record) sameLock(other *Record) bool {
	return r.Name == other.Name && r.Path == other.Path
}

// lockName is the lock_name of a record: a name, or a path with "." for the
// root.
func (r *Record) lockName() string {
	if id := r.id(); id != "" {
		return id
	}
	return "."
}

// shown names in text what is locked: "a/b", "a/**", "name:deploy".
func (r *Record) shown() string {
	switch {
	case r.Name != "":
		return "name:" + printable.Line(r.Name)
	case r.Tree:
		return displayPath(r.Path) + "/**"
	default:
		return displayPath(r.Path)
	}
}

// ahead is how many are in a waiter's way.
func (r *Record) ahead() int { return max(r.Ahead, len(r.WaitsFor)) }

// Who names the owner of a record as the tables do: "python3[4711]", with
// "[?]" for a process in another pid namespace.
func (r *Record) Who() string {
	program := r.Program
	if program == "" {
		program = "?"
	}
	pid := "?"
	if r.Owner.PID != 0 {
		pid = strconv.Itoa(int(r.Owner.PID))
	}
	return printable.Line(program) + "[" + pid + "]"
}

// actor is the label the owner goes by (see Record.Actor).
func (r *Record) actor() string {
	if r.Actor != "" {
		return r.Actor
	}
	return r.Program
}

// whoAs is Who with the actor's label, where that says more.
func (r *Record) whoAs() string {
	if r.Actor == "" || r.Actor == r.Program {
		return r.Who()
	}
	return r.Who() + " as " + printable.Line(r.Actor)
}

// heartbeat is the last sign of life of a holder.
func (r *Record) heartbeat() time.Time {
	if r.LastSeen.After(r.Since) {
		return r.LastSeen
	}
	return r.Since
}

// staleSince is when a stale record's heartbeat expired.
func (r *Record) staleSince() time.Time {
	if r.StaleSince.IsZero() {
		return r.heartbeat().Add(r.TTL)
	}
	return r.StaleSince
}

// staleReason explains at now why a record is stale, in the words of SEED W5;
// "" when it is not.
func (r *Record) staleReason(now time.Time) string {
	switch {
	case !r.Stale:
		return ""
	case r.StaleReason != "":
		return r.StaleReason
	}
	silent := now.Sub(r.heartbeat())
	return "last heartbeat is " + strconv.FormatFloat(silent.Seconds(), 'f', 1, 64) +
		"s old (>" + strconv.FormatFloat(r.TTL.Seconds(), 'f', -1, 64) + "s)"
}

// joinDisplay joins command line words for people.
func joinDisplay(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = printable.Line(w)
		if w == "" || strings.ContainsAny(w, " '\"") {
			shown[i] = "'" + strings.ReplaceAll(shown[i], "'", `'\''`) + "'"
		}
	}
	return strings.Join(shown, " ")
}
