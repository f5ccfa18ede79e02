package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// drawing has a column that grows with its axis, and one with a point that was not measured.
func drawing() drawn {
	return drawn{
		Curve:   load.Curve{ID: "d", Title: "an <operation>", Grows: "things", Unit: func(x int64) string { return fmt.Sprintf("<%d>", x) }, Points: []int64{0, 10, 100, 1_000}},
		Columns: []*column{newColumn(plainColumn), newColumn(latchfsColumn)},
		Median:  map[string][]float64{plainColumn: {1e3, 1e4, 1e5, 1e6}, latchfsColumn: {5e3, figures.Missing(), 5e3, 2e9}},
	}
}

// The drawing is well-formed, has a mark for everything that was measured, and nothing of
// it is outside of the frame.
func TestDrawing(t *testing.T) {
	d := drawing()
	marks := 0
	dec := xml.NewDecoder(bytes.NewReader(d.svg()))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "circle" {
			marks++
		}
		for _, a := range e.Attr {
			limit := map[string]float64{"x": drawWidth, "x1": drawWidth, "x2": drawWidth, "cx": drawWidth, "y": drawHeight, "y1": drawHeight, "y2": drawHeight, "cy": drawHeight}[a.Name.Local]
			if v, err := strconv.ParseFloat(a.Value, 64); limit > 0 && (err != nil || v < 0 || v > limit) {
				t.Errorf("%s: %s=%q is outside", e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	if marks != 7 {
		t.Errorf("%d marks for 7 figures", marks)
	}
}

// Where the axis grows by one power of ten, so does a cost that is proportional to it.
func TestProportionalCostIsAStraightLine(t *testing.T) {
	d := drawing()
	s := scaleOf(d.Median[plainColumn], 300, 0)
	for i, v := range d.Median[plainColumn] {
		if got, want := s.at(v), 300-float64(i)*100; got < want-0.01 || got > want+0.01 {
			t.Errorf("%v is drawn at %v, not at %v", v, got, want)
		}
	}
}

// The page shows the drawing, and the figures with their units.
func TestPage(t *testing.T) {
	var page strings.Builder
	d := drawing()
	if err := writeCurves(&page, nil, d.Columns, []drawn{d}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "![d](d.svg)") || !strings.Contains(page.String(), "| <1000> | 1.00 ms | 2.00 s |") {
		t.Errorf("the page is\n%s", page.String())
	}
}
