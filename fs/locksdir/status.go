package locksdir

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

// status renders the table that a person wants at three in the morning.
func (s *snapshot) status(started time.Time) []byte {
	var b []byte
	if s.stopping {
		b = append(b, "latchfs is shutting down: open files may be finished, and new writers wait.\n"...)
	}
	b = s.appendSummary(b)
	b = append(b, "  "...)
	b = s.taken.AppendFormat(b, "2006-01-02 15:04:05 MST")
	b = append(b, ", serving for "...)
	b = append(b, age(s.taken.Sub(started))...)
	b = append(b, ".\n"...)
	b = s.appendLongestWait(b)
	if len(s.held) > 0 {
		b = s.heldTable().append(append(b, '\n'))
	}
	if len(s.waiting) > 0 {
		b = s.waitTable().append(append(b, '\n'))
	}
	return b
}

// appendSummary appends the first sentences: how much is locked at all.
func (s *snapshot) appendSummary(b []byte) []byte {
	if len(s.held) == 0 && len(s.waiting) == 0 {
		return append(b, "Nothing is locked and nobody waits."...)
	}
	b = append(b, plural(len(s.held), "lock")...)
	b = append(b, " held, "...)
	b = append(b, plural(len(s.waiting), "request")...)
	b = append(b, " waiting."...)
	stale := 0
	for _, r := range s.held {
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
func (s *snapshot) appendLongestWait(b []byte) []byte {
	if len(s.waiting) == 0 {
		return b
	}
	longest := s.waiting[0]
	for _, r := range s.waiting[1:] {
		if r.Since.Before(longest.Since) {
			longest = r
		}
	}
	b = append(b, "Longest wait: "...)
	b = append(b, longest.Who()...)
	b = append(b, " has waited "...)
	b = append(b, age(s.taken.Sub(longest.Since))...)
	b = append(b, " for "...)
	b = append(b, longest.shown()...)
	if longest.ahead() > 0 {
		b = append(b, ", behind "...)
		b = append(b, longest.behind()...)
	}
	return append(b, ".\n"...)
}

func (s *snapshot) heldTable() *table {
	t := newTable(len(s.held), "FILE", "HOLDER", "OPERATION", "MODE", "SINCE", "AGE", "HEARTBEAT", "WAITING")
	for _, r := range s.held {
		t.add(
			fit(r.shown(), widePath),
			fit(r.whoAs(), wideHolder),
			fit(printable.Line(r.Operation), wideOperation),
			fit(printable.Line(r.Mode), wideOperation),
			moment(r.Since, s.taken),
			age(s.taken.Sub(r.Since)),
			s.heartbeat(r),
			waiters(r.Waiters),
		)
	}
	return t
}

// heartbeat is the cell that tells whether a holder is alive.
func (s *snapshot) heartbeat(r *Record) string {
	silent := age(s.taken.Sub(r.heartbeat()))
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

func (s *snapshot) waitTable() *table {
	t := newTable(len(s.waiting), "WAITING FOR", "WAITER", "OPERATION", "MODE", "SINCE", "WAITED", "GIVES UP", "BEHIND")
	for _, r := range s.waiting {
		t.add(
			fit(r.shown(), widePath),
			fit(r.whoAs(), wideHolder),
			fit(printable.Line(r.Operation), wideOperation),
			fit(printable.Line(r.Mode), wideOperation),
			moment(r.Since, s.taken),
			age(s.taken.Sub(r.Since)),
			s.givesUp(r),
			fit(r.behind(), widePath),
		)
	}
	return t
}

func (s *snapshot) givesUp(r *Record) string {
	if r.Deadline.IsZero() {
		return "never"
	}
	return "in " + age(r.Deadline.Sub(s.taken))
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
