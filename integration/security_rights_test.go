package integration

import (
	"fmt"
	"os"
	"testing"
)

// Three ordinary users make random calls in directories of many kinds of rights: each
// is answered as in a plain directory, and leaves the same owners, modes, ACLs, names
// and content.
func TestRightsAtRandom(t *testing.T) {
	script, err := os.ReadFile("testdata/rights.py")
	if err != nil {
		t.Fatal(err)
	}
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		out := m.LaunchPython(t, string(script), plainTwin(t, m), m.Dir, fmt.Sprint(repeat(700, 5000)), fmt.Sprint(drawnSeed())).Wait()
		if out.Code != 0 {
			t.Errorf("%s%s", out.Stdout, out.Stderr)
		}
		t.Log(out.Stderr)
	}, func(*testing.T) []mountOption { return []mountOption{careless()} })
}
