package history

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Whoever reads versions reads the right records, while others save, directories move
// and the log is rewritten.
func TestReadersBesideRewrites(t *testing.T) {
	w := newWorld(t, Options{})
	path := func(i int) string { return fmt.Sprintf("d/f%d", i%7) }
	for i := range 7 {
		w.s.Add(Version{Path: path(i), Event: Commit, Actor: fmt.Sprint("f", i)})
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	reads := atomic.Int64{}
	look := func(v Version) {
		if _, name, _ := strings.Cut(v.Path, "/"); v.Actor != name || !IsContentID(v.Content) {
			t.Errorf("version %d of %s is %q's, and its content is %q", v.Number, v.Path, v.Actor, v.Content)
		}
		reads.Add(1)
	}
	for _, read := range []func(){
		func() {
			for v := range w.s.All() {
				look(v)
			}
		},
		func() {
			for _, v := range slices.Concat(w.s.Of("d/f3"), w.s.Of("e/f3")) {
				look(v)
			}
		},
		func() {
			for v := range w.s.NewestOf("d/f5") {
				look(v)
			}
		},
	} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					read()
				}
			}
		})
	}
	for i := range 400 {
		w.s.Add(Version{Path: path(i), Event: Commit, Actor: fmt.Sprint("f", i%7)})
		if i%20 == 0 {
			w.s.rewrite()
		}
		if i%50 == 25 {
			w.s.Moved("d", "e", i%100 == 25)
		}
	}
	close(stop)
	readers.Wait()
	if reads.Load() == 0 {
		t.Error("nothing was read")
	}
}

// Whoever looks at all versions gets each once, oldest first, and holds a few of them in
// memory at a time.
func TestAllTakesAPartAtATime(t *testing.T) {
	const versions = 5*maxAhead + 17
	w := newWorld(t, Options{MaxRecords: 2 * versions})
	w.addMany(versions, 300)
	before, seen := resident(t), 0
	for v := range w.s.All() {
		if want := int32(4711 + seen); v.PID != want {
			t.Fatalf("version %d is that of process %d, want %d", seen, v.PID, want)
		}
		if seen == 0 {
			if held, most := resident(t)-before, int64(320<<10); held > most {
				t.Errorf("%d KiB are held meanwhile, want at most %d", held>>10, most>>10)
			}
		}
		seen++
	}
	if seen != versions {
		t.Errorf("%d versions were seen, want %d", seen, versions)
	}
}
