package report

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"latchfs/fs/printable"
)

// The widest cells of the tables, in characters.
const (
	widePath      = 60
	wideHolder    = 40
	wideOperation = 20
)

// Status is all locks that somebody knows of, held and waited for, at one moment.
type Status struct {
	// Held has the records of one lock side by side, and Waiting the requests for one
	// lock in the order of their turns.
	Held, Waiting []*Record
	At            time.Time
	Started       time.Time // when the mount began to serve
	// Stopping: the mount is shutting down.
	Stopping bool
}

// Text renders the table that a person wants at three in the morning.
func (s *Status) Text() []byte {
	var b []byte
	if s.Stopping {
		b = append(b, "latchfs is shutting down: open files may be finished, and new writers wait.\n"...)
	}
	b = s.appendSummary(b)
	b = append(b, "  "...)
	b = s.At.AppendFormat(b, "2006-01-02 15:04:05 MST")
	b = append(b, ", serving for "...)
	b = append(b, age(s.At.Sub(s.Started))...)
	b = append(b, ".\n"...)
	b = s.appendLongestWait(b)
	if len(s.Held) > 0 {
		b = s.heldTable().append(append(b, '\n'))
	}
	if len(s.Waiting) > 0 {
		b = s.waitTable().append(append(b, '\n'))
	}
	return b
}

// appendSummary appends the first sentences: how much is locked at all.
func (s *Status) appendSummary(b []byte) []byte {
	if len(s.Held) == 0 && len(s.Waiting) == 0 {
		return append(b, "Nothing is locked and nobody waits."...)
	}
	b = append(b, plural(len(s.Held), "lock")...)
	b = append(b, " held, "...)
	b = append(b, plural(len(s.Waiting), "request")...)
	b = append(b, " waiting."...)
	stale := 0
	for _, r := range s.Held {
		if r.Stale {
			stale++
		}
	}
	if stale > 0 {
		b = append(b, "  STALE: "...)
		b = append(b, plural(stale, "lock")...)
		b = append(b, ", see README."...)
	}
	return b
}

// appendLongestWait appends the line that names the worst problem, if anybody
// waits.
func (s *Status) appendLongestWait(b []byte) []byte {
	if len(s.Waiting) == 0 {
		return b
	}
	longest := s.Waiting[0]
	for _, r := range s.Waiting[1:] {
		if r.Since.Before(longest.Since) {
			longest = r
		}
	}
	b = append(b, "Longest wait: "...)
	b = append(b, longest.Who()...)
	b = append(b, " has waited "...)
	b = append(b, age(s.At.Sub(longest.Since))...)
	b = append(b, " for "...)
	b = append(b, longest.shown()...)
	if longest.ahead() > 0 {
		b = append(b, ", behind "...)
		b = append(b, longest.behind()...)
	}
	return append(b, ".\n"...)
}

func (s *Status) heldTable() *table {
	t := newTable(len(s.Held), "FILE", "HOLDER", "OPERATION", "MODE", "SINCE", "AGE", "HEARTBEAT", "WAITING")
	for _, r := range s.Held {
		t.add(
			fit(r.shown(), widePath),
			fit(r.whoAs(), wideHolder),
			fit(printable.Line(r.Operation), wideOperation),
			fit(printable.Line(r.Mode), wideOperation),
			moment(r.Since, s.At),
			age(s.At.Sub(r.Since)),
			s.heartbeat(r),
			waiters(r.Waiters),
		)
	}
	return t
}

// heartbeat is the cell that tells whether a holder is alive.
func (s *Status) heartbeat(r *Record) string {
	silent := age(s.At.Sub(r.Heartbeat()))
	switch {
	case r.Stale:
		return "STALE " + silent
	case r.LastSeen.IsZero():
		return "-"
	default:
		return silent + " ago"
	}
}

func waiters(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func (s *Status) waitTable() *table {
	t := newTable(len(s.Waiting), "WAITING FOR", "WAITER", "OPERATION", "MODE", "SINCE", "WAITED", "GIVES UP", "BEHIND")
	for _, r := range s.Waiting {
		t.add(
			fit(r.shown(), widePath),
			fit(r.whoAs(), wideHolder),
			fit(printable.Line(r.Operation), wideOperation),
			fit(printable.Line(r.Mode), wideOperation),
			moment(r.Since, s.At),
			age(s.At.Sub(r.Since)),
			s.givesUp(r),
			fit(r.behind(), widePath),
		)
	}
	return t
}

func (s *Status) givesUp(r *Record) string {
	if r.Deadline.IsZero() {
		return "never"
	}
	return "in " + age(r.Deadline.Sub(s.At))
}

// behind names whom a waiter waits for: the first, and how many more.
func (r *Record) behind() string {
	n := r.ahead()
	switch {
	case n == 0:
		return "-"
	case len(r.WaitsFor) == 0:
		return plural(n, "other")
	case n == 1:
		return printable.Line(r.WaitsFor[0])
	default:
		return printable.Line(r.WaitsFor[0]) + " and " + strconv.Itoa(n-1) + " more"
	}
}

// table lays text out in columns that are as wide as their widest cell.
type table struct {
	columns int
	cells   []string // row after row
	widths  []int    // in characters
}

func newTable(rows int, header ...string) *table {
	t := &table{
		columns: len(header),
		cells:   make([]string, 0, (rows+1)*len(header)),
		widths:  make([]int, len(header)),
	}
	t.add(header...)
	return t
}

func (t *table) add(row ...string) {
	for i, cell := range row {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
	t.cells = append(t.cells, row...)
}

// append renders the table. Cells are two spaces apart; the last one of a row
// is not padded.
func (t *table) append(b []byte) []byte {
	size := 0
	for _, w := range t.widths {
		size += w + 2
	}
	b = append(make([]byte, 0, len(b)+size*len(t.cells)/t.columns), b...)
	pad := strings.Repeat(" ", size)
	for i, cell := range t.cells {
		b = append(b, cell...)
		column := i % t.columns
		if column == t.columns-1 {
			b = append(b, '\n')
			continue
		}
		b = append(b, pad[:t.widths[column]+2-utf8.RuneCountInString(cell)]...)
	}
	return b
}
