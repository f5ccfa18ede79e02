package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"

	"latchfs/integration/bench/internal/figures"
)

// The drawing: both axes are logarithmic, so that a cost that is proportional to what
// grows rises like the dotted lines, and one that is the same everywhere is level.
const (
	drawWidth, drawHeight = 720, 400
	drawLeft, drawRight   = 80, 20
	drawTop, drawBottom   = 50, 70
)

// colours of the columns, told apart by those who see few colours, too.
var colours = map[string]string{plainColumn: "#555555", loopbackColumn: "#0072b2", bindfsColumn: "#e69f00", latchfsColumn: "#d5301c"}

// scale maps values to places on an axis.
type scale struct {
	low, high float64 // logarithms
	from, to  float64 // of the drawing
}

// scaleOf covers all values that are more than 0, in whole powers of ten.
func scaleOf(values []float64, from, to float64) scale {
	s := scale{math.Inf(1), math.Inf(-1), from, to}
	for _, v := range values {
		if v > 0 {
			s.low, s.high = min(s.low, math.Floor(math.Log10(v))), max(s.high, math.Ceil(math.Log10(v)))
		}
	}
	if math.IsInf(s.low, 1) {
		s.low, s.high = 0, 1
	}
	s.high = max(s.high, s.low+1)
	return s
}

func (s scale) at(v float64) float64 {
	return s.from + (math.Log10(v)-s.low)/(s.high-s.low)*(s.to-s.from)
}

// abscissae are where the points are drawn; a logarithm has no 0.
func (d *drawn) abscissae() []float64 {
	out := make([]float64, len(d.Points))
	for i, x := range d.Points {
		out[i] = float64(x)
		if x == 0 {
			out[i] = float64(d.Points[1]) / 10
		}
	}
	return out
}

func (d *drawn) svg() []byte {
	var b bytes.Buffer
	xs := d.abscissae()
	var all []float64
	for _, c := range d.Columns {
		all = append(all, d.Median[c.ID]...)
	}
	x := scale{math.Log10(xs[0]), math.Log10(xs[len(xs)-1]), drawLeft, drawWidth - drawRight}
	y := scaleOf(all, drawHeight-drawBottom, drawTop)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", drawWidth, drawHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", drawWidth, drawHeight)
	text := func(px, py float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", px, py, anchor, html.EscapeString(s))
	}
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	text(drawLeft, 20, "start", d.Title+", by "+d.Grows)
	for e := y.low; e <= y.high; e++ {
		at := y.at(math.Pow(10, e))
		line(drawLeft, at, drawWidth-drawRight, at, `stroke="#dddddd"`)
		text(drawLeft-8, at+4, "end", figures.Time(math.Pow(10, e)))
	}
	for i, v := range xs {
		line(x.at(v), drawTop, x.at(v), drawHeight-drawBottom, `stroke="#eeeeee"`)
		text(x.at(v), drawHeight-drawBottom+18, "middle", d.Unit(d.Points[i]))
	}
	text((drawLeft+drawWidth-drawRight)/2, drawHeight-drawBottom+38, "middle", d.Grows)
	d.drawLinear(x, y, line)
	for i, c := range d.Columns {
		d.drawColumn(&b, c, xs, x, y)
		at := float64(drawLeft + i*150)
		line(at, drawHeight-12, at+24, drawHeight-12, fmt.Sprintf(`stroke="%s" stroke-width="2.5"`, colours[c.ID]))
		text(at+30, drawHeight-8, "start", c.Title)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawLinear draws what a cost proportional to the axis looks like.
func (d *drawn) drawLinear(x, y scale, line func(x1, y1, x2, y2 float64, style string)) {
	for e := y.low - (x.high - x.low); e < y.high; e++ {
		// From (x.low, e) upwards by one power of ten for each of x; what is outside is cut off.
		start, end := max(x.low, x.low+y.low-e), min(x.high, x.low+y.high-e)
		if start < end {
			line(x.at(math.Pow(10, start)), y.at(math.Pow(10, e+start-x.low)),
				x.at(math.Pow(10, end)), y.at(math.Pow(10, e+end-x.low)), `stroke="#cccccc" stroke-dasharray="2 4"`)
		}
	}
}

func (d *drawn) drawColumn(b *bytes.Buffer, c *column, xs []float64, x, y scale) {
	var path bytes.Buffer
	for i, v := range d.Median[c.ID] {
		if v > 0 {
			fmt.Fprintf(&path, "%.1f,%.1f ", x.at(xs[i]), y.at(v))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(xs[i]), y.at(v), colours[c.ID])
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", bytes.TrimSpace(path.Bytes()), colours[c.ID])
}

// writeCurves writes the page with the figures behind the drawings.
func writeCurves(out io.Writer, facts []fact, columns []*column, all []drawn) error {
	w := &printer{out: out}
	w.printf("# Cost curves\n\nMade by `make curves`; [performance.md](../performance.md) says what they tell. Both axes are\nlogarithmic: a cost that is proportional to what grows rises like the dotted lines.\n\n")
	report{Facts: facts, Columns: columns}.writeFacts(w)
	for _, d := range all {
		w.printf("\n## %s, by %s\n\n", d.Title, d.Grows)
		if d.Note != "" {
			w.printf("%s.\n\n", d.Note)
		}
		w.printf("![%s](%s.svg)\n\n", d.ID, d.ID)
		head, rule := []string{d.Grows}, []string{"---:"}
		for _, c := range d.Columns {
			head, rule = append(head, c.Title), append(rule, "---:")
		}
		w.row(head...)
		w.row(rule...)
		for i, x := range d.Points {
			row := []string{d.Unit(x)}
			for _, c := range d.Columns {
				row = append(row, figures.Time(d.Median[c.ID][i]))
			}
			w.row(row...)
		}
	}
	return w.err
}
