package report

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"latchfs/fs/printable"
)

// displayPath is printable.Line for a path relative to the root, which is itself ".".
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

// joinLine joins command line words for people.
func joinLine(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = printable.Line(w)
		if w == "" || strings.ContainsAny(w, " '\"") {
			shown[i] = "'" + strings.ReplaceAll(shown[i], "'", `'\''`) + "'"
		}
	}
	return strings.Join(shown, " ")
}
