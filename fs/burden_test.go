package fs

import (
	"fmt"
	"testing"

	"latchfs/fs/locksdir"
)

// What a look remembers has a bound, and a look that has forgotten something does not
// say that all it has said still stands.
func TestLooksAreBounded(t *testing.T) {
	l := (&FS{}).lookOf(locksdir.Viewer{Privileged: true})
	for i := range 4 * maxLook / lookCost {
		path := fmt.Sprint("d/", i)
		l.boundLocked(path)
		l.last[path] = true
		if len(l.last) > maxLook/lookCost {
			t.Fatalf("%d paths are remembered", len(l.last))
		}
	}
	if l.Stands() {
		t.Error("a look that has forgotten what it said vouches for it")
	}
}
