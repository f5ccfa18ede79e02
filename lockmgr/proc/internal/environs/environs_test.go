package environs

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"latchfs/lockmgr"
)

var (
	one  = lockmgr.Owner{PID: 10, Start: 5}
	same = lockmgr.Owner{PID: 10, Start: 6}             // of the same pid
	near = lockmgr.Owner{PID: 10 + int32(len(Cache{}))} // of the same slot
	far  = lockmgr.Owner{PID: 11, Start: 5}             // of another slot
	im   = Image{Told: 3, Faults: 7}
)

// expect compares what is remembered; "" is nothing.
func (c *Cache) expect(t *testing.T, what string, o lockmgr.Owner, im Image, names, want string) {
	t.Helper()
	if got, ok := c.Get(o, im, strings.Fields(names)); got != want || ok != (want != "") {
		t.Errorf("%s: %q, %v, want %q", what, got, ok, want)
	}
}

func (c *Cache) put(o lockmgr.Owner, im Image, names, value string) {
	c.Put(o, im, strings.Fields(names), value)
}

// An answer is that to the same question, about the same program of the same process.
func TestGet(t *testing.T) {
	var c Cache
	c.expect(t, "before anything was put", one, im, "A B", "")
	c.put(one, im, "A B", "x")
	c.expect(t, "the same", one, im, "A B", "x")
	c.expect(t, "another question", one, im, "A", "")
	c.expect(t, "another order", one, im, "B A", "")
	c.expect(t, "another process of the pid", same, im, "A B", "")
	c.expect(t, "another process", near, im, "A B", "")
	c.expect(t, "another program, as the kernel tells", one, Image{4, 7}, "A B", "")
	c.expect(t, "another program, by its faults", one, Image{3, 8}, "A B", "")
	c.put(one, im, "A", "y")
	c.expect(t, "with another", one, im, "A B", "x")
	c.expect(t, "the other", one, im, "A", "y")
	c.put(one, im, "A", "z")
	c.expect(t, "answered again", one, im, "A", "z")
}

// An answer that is empty is one, too.
func TestEmptyAnswer(t *testing.T) {
	var c Cache
	c.put(one, im, "A", "")
	if got, ok := c.Get(one, im, []string{"A"}); got != "" || !ok {
		t.Errorf("%q, %v", got, ok)
	}
}

// Another program, or another process in its slot, takes the place of what was there.
func TestForgets(t *testing.T) {
	for _, next := range []struct {
		o  lockmgr.Owner
		im Image
	}{{one, Image{4, 7}}, {one, Image{3, 8}}, {same, im}, {near, im}} {
		var c Cache
		c.put(one, im, "A", "x")
		c.put(one, im, "B", "y")
		c.put(far, im, "A", "z")
		c.put(next.o, next.im, "A", "new")
		c.expect(t, fmt.Sprint("put for ", next), next.o, next.im, "A", "new")
		c.expect(t, fmt.Sprint("the other answer, after ", next), next.o, next.im, "B", "")
		c.expect(t, fmt.Sprint("the one before ", next), one, im, "A", "")
		c.expect(t, fmt.Sprint("one in another slot, after ", next), far, im, "A", "z")
	}
}

// What is remembered is of bounded size: the latest answers, and none that is long.
func TestBounds(t *testing.T) {
	var c Cache
	long := strings.Repeat("x", maxAnswer)
	c.put(one, im, "A", long)
	c.expect(t, "the longest", one, im, "A", long)
	c.put(one, im, "B", long+"x")
	c.expect(t, "a longer one", one, im, "B", "")
	c.expect(t, "the one before", one, im, "A", long)
	for i := range 3 * maxAnswers {
		c.put(one, im, fmt.Sprint("N", i), fmt.Sprint("v", i))
		for back := range 3 * maxAnswers {
			if j := i - back; j >= 0 {
				want := ""
				if back < maxAnswers {
					want = fmt.Sprint("v", j)
				}
				c.expect(t, fmt.Sprint("question ", j, " after ", i), one, im, fmt.Sprint("N", j), want)
			}
		}
	}
	if p := c.slot(one).Load(); len(p.answers) != maxAnswers {
		t.Errorf("%d answers are kept", len(p.answers))
	}
}

// Whoever has got an answer may go on while others are put.
func TestAtOnce(t *testing.T) {
	var c Cache
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			im := Image{Told: g}
			for i := range 500 {
				c.Put(one, im, []string{"A"}, fmt.Sprint(g))
				if got, ok := c.Get(one, im, []string{"A"}); ok && got != fmt.Sprint(g) {
					t.Errorf("%d: program %d has %q", i, g, got)
				}
			}
		})
	}
	wg.Wait()
}
