package main

import (
	"slices"
	"testing"

	"latchfs/integration/bench/internal/load"
)

// Each work is compared with what promises the same.
func TestMeasured(t *testing.T) {
	columns := map[string][]string{
		"save":         {plainColumn, loopbackColumn, bindfsColumn, latchfsColumn, fullColumn, pageCacheColumn},
		"save-ordered": {plainColumn, loopbackColumn, bindfsColumn, orderedColumn},
		"save-lazy":    {plainColumn, loopbackColumn, bindfsColumn, lazyColumn},
		"append":       {plainColumn, loopbackColumn, bindfsColumn, fullColumn},
		"append-lazy":  {plainColumn, loopbackColumn, bindfsColumn, latchfsColumn, lazyColumn, pageCacheColumn},
		"append-held":  {plainColumn, loopbackColumn, bindfsColumn, latchfsColumn, fullColumn, orderedColumn, pageCacheColumn},
		"open":         {plainColumn, loopbackColumn, bindfsColumn, latchfsColumn, pageCacheColumn, untrackedColumn},
	}
	for id, want := range columns {
		i := slices.IndexFunc(load.Works(), func(w load.Work) bool { return w.ID == id })
		if i < 0 {
			t.Fatalf("no work %q", id)
		}
		w := load.Works()[i]
		var got []string
		for _, c := range columnIDs() {
			if measured(w, newColumn(c)) {
				got = append(got, c)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is measured on %q, want %q", id, got, want)
		}
	}
}
