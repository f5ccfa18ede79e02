package main

import (
	"fmt"
	"io"
	"strings"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// report is everything that is printed in the end.
type report struct {
	Facts   []fact
	Works   []load.Work
	Columns []*column
	Table   table
}

// write prints the report as Markdown. The first failed write is returned.
func (r report) write(out io.Writer) error {
	w := &printer{out: out}
	r.writeFacts(w)
	w.printf("\n### Time of one operation\n\nMedian of the rounds.\n\n")
	r.writeTimes(w)
	w.printf("\n### Ratios and targets\n\nTime of latchfs divided by the other's in the same round: median and quartiles over the rounds; below 1 is faster.\n\n")
	r.writeRatios(w)
	r.writeReads(w)
	r.writeOld(w)
	r.writeFailures(w)
	w.printf("\n### What one operation is\n\n")
	for _, x := range r.Works {
		w.printf("- **%s**: %s.\n", x.Title, x.Does)
	}
	return w.err
}

func (r report) writeFacts(w *printer) {
	w.row("machine and run", "")
	w.row("---", "---")
	for _, f := range r.Facts {
		w.row(f.Name, f.Value)
	}
	for _, c := range r.Columns {
		about := c.About
		if c.broken != nil {
			about = "not measured to the end: " + load.Shorten(c.broken.Error())
		}
		w.row("column "+c.Title, about)
	}
}

func (r report) writeTimes(w *printer) {
	head, rule := []string{"work"}, []string{"---"}
	for _, c := range r.Columns {
		head, rule = append(head, c.Title), append(rule, "---:")
	}
	w.row(head...)
	w.row(rule...)
	for _, x := range r.Works {
		row := []string{x.Title}
		for _, c := range r.Columns {
			row = append(row, r.time(x, c))
		}
		w.row(row...)
	}
}

// time is one cell of the table of times.
func (r report) time(w load.Work, c *column) string {
	x := r.Table[w.ID][c.ID]
	switch {
	case !measured(w, c):
		return ""
	case x != nil && figures.Summarize(x.Rounds).N > 0:
		return figures.Time(figures.Median(x.Rounds))
	case x != nil && x.Err != nil:
		return "failed"
	}
	return "not measured"
}

// writeRatios has one row for each work and column of latchfs.
func (r report) writeRatios(w *printer) {
	w.row("work", "column", "of plain", "of loopback", "of bindfs", "target", "verdict")
	w.row("---", "---", "---:", "---:", "---:", "---", "---")
	for _, x := range r.Works {
		for _, c := range r.Columns {
			if !c.IsLatchfs || !measured(x, c) || r.Table[x.ID][c.ID] == nil {
				continue
			}
			plain, loopback, bindfs := r.ratio(x, c, plainColumn), r.ratio(x, c, loopbackColumn), r.ratio(x, c, bindfsColumn)
			wanted, verdict := x.Target.String(), x.Target.Verdict(plain, loopback, bindfs)
			switch {
			case c.NoTargets:
				wanted, verdict = "–", ""
			case figures.Summarize(r.rounds(x, c.ID)).N == 0:
				verdict = "not measured"
			}
			w.row(x.Title, c.ID, figures.Ratio(plain), figures.Ratio(loopback), figures.Ratio(bindfs), wanted, verdict)
		}
	}
}

// maxReads is how much longer a read may take because it is noted.
const maxReads = 1.05

// writeReads says what it costs that the mount remembers who has read what.
func (r report) writeReads(w *printer) {
	r.writeBeside(w, untrackedColumn, "What noting reads costs", "its own with lost-update = \"off\" in the same round", maxReads)
}

// writeOld compares latchfs with the binary of the column "old".
func (r report) writeOld(w *printer) {
	r.writeBeside(w, oldColumn, "Beside the old binary", "that of the old binary in the same round; below 1 is faster", 0)
}

// writeBeside has a row for each work for which latchfs is compared with another column of
// its own. With a limit, rows have a verdict.
func (r report) writeBeside(w *printer, other, title, by string, limit float64) {
	head, rule := []string{"work", "of " + other}, []string{"---", "---:"}
	if limit > 0 {
		head, rule = append(head, "target", "verdict"), append(rule, "---", "---")
	}
	var rows [][]string
	for _, x := range r.Works {
		ratio := figures.Summarize(figures.Ratios(r.rounds(x, latchfsColumn), r.rounds(x, other)))
		if ratio.N == 0 {
			continue
		}
		row := []string{x.Title, figures.Ratio(ratio)}
		if limit > 0 {
			row = append(row, fmt.Sprintf("≤ %.4g", limit), figures.Target{VsPlain: limit}.Verdict(ratio, figures.Summary{}, figures.Summary{}))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return
	}
	w.printf("\n### %s\n\nTime of latchfs divided by %s.\n\n", title, by)
	for _, row := range append([][]string{head, rule}, rows...) {
		w.row(row...)
	}
}

func (r report) ratio(w load.Work, c *column, other string) figures.Summary {
	return figures.Summarize(figures.Ratios(r.rounds(w, c.ID), r.rounds(w, other)))
}

func (r report) rounds(w load.Work, id string) []float64 {
	if x := r.Table[w.ID][id]; x != nil {
		return x.Rounds
	}
	return nil
}

// writeFailures lists what went wrong, if anything did.
func (r report) writeFailures(w *printer) {
	var lines []string
	for _, x := range r.Works {
		for _, c := range r.Columns {
			if y := r.Table[x.ID][c.ID]; y != nil && y.Err != nil {
				lines = append(lines, fmt.Sprintf("- %s, %s: failed %d times, first with: %s", x.Title, c.Title, y.failed, load.Shorten(y.Err.Error())))
			}
		}
	}
	if len(lines) > 0 {
		w.printf("\n### Failures\n\n%s\n", strings.Join(lines, "\n"))
	}
}

// printer keeps the first error, so that the callers need not look at each.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

// row prints one row of a Markdown table.
func (p *printer) row(cells ...string) {
	escaped := make([]string, len(cells))
	for i, c := range cells {
		escaped[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	p.printf("| %s |\n", strings.Join(escaped, " | "))
}
