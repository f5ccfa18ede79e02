package list

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// task is in two lists at a time.
type task struct {
	id         int
	queue, all Links[task]
}

type (
	inQueue struct{}
	inAll   struct{}
)

func (inQueue) Links(t *task) *Links[task] { return &t.queue }
func (inAll) Links(t *task) *Links[task]   { return &t.all }

// ids are those of the elements, read in both directions.
func ids(t interface {
	Helper()
	Fatalf(string, ...any)
}, ls *List[task, inQueue],
) []int {
	t.Helper()
	var there, back []int
	for x := ls.First(); x != nil; x = x.queue.Next() {
		there = append(there, x.id)
	}
	for x := ls.Last(); x != nil; x = x.queue.Prev() {
		back = append(back, x.id)
	}
	slices.Reverse(back)
	if !slices.Equal(there, back) || ls.Len() != len(there) {
		t.Fatalf("forwards %v, backwards %v, counted %d", there, back, ls.Len())
	}
	return there
}

func TestInsertAndRemove(t *testing.T) {
	var ls List[task, inQueue]
	if ids(t, &ls) != nil || ls.First() != nil || ls.Last() != nil {
		t.Error("it is not empty")
	}
	a, b, c := &task{id: 1}, &task{id: 2}, &task{id: 3}
	ls.Insert(b, nil)
	ls.Insert(c, nil)
	ls.Insert(a, b)
	if got := ids(t, &ls); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	ls.Remove(b)
	if got := ids(t, &ls); !slices.Equal(got, []int{1, 3}) || b.queue != (Links[task]{}) {
		t.Errorf("%v, and what was removed has %+v", got, b.queue)
	}
	ls.Insert(b, a)
	ls.Remove(c)
	ls.Remove(b)
	ls.Remove(a)
	if ids(t, &ls) != nil || ls.First() != nil || ls.Last() != nil {
		t.Error("it is not empty")
	}
}

// An element is in each list by itself.
func TestTwoLists(t *testing.T) {
	var queue List[task, inQueue]
	var all List[task, inAll]
	a, b := &task{id: 1}, &task{id: 2}
	for _, x := range []*task{a, b} {
		queue.Insert(x, nil)
		all.Insert(x, all.First())
	}
	queue.Remove(a)
	if queue.First() != b || queue.Len() != 1 || all.First() != b || b.all.Next() != a || all.Last() != a || all.Len() != 2 {
		t.Error("one list has changed the other")
	}
}

// The tail ends at the first element, from the end, that is not as asked.
func TestTailOf(t *testing.T) {
	var ls List[task, inQueue]
	if ls.TailOf(func(*task) bool { return true }) != nil {
		t.Error("an empty list has a tail")
	}
	for _, id := range []int{5, 1, 4, 6} {
		ls.Insert(&task{id: id}, nil)
	}
	for more, want := range map[int]int{0: 5, 3: 4, 4: 6, 6: 0} {
		got := 0
		if x := ls.TailOf(func(x *task) bool { return x.id > more }); x != nil {
			got = x.id
		}
		if got != want {
			t.Errorf("those above %d begin with %d, not %d", more, got, want)
		}
	}
}

// Random uses against a slice.
func TestListAgainstModel(t *testing.T) {
	rapid.Check(t, func(p *rapid.T) {
		var ls List[task, inQueue]
		var model []*task
		for i := range rapid.IntRange(1, 50).Draw(p, "steps") {
			at := rapid.IntRange(0, len(model)).Draw(p, "at")
			if at < len(model) && rapid.Bool().Draw(p, "remove") {
				ls.Remove(model[at])
				model = slices.Delete(model, at, at+1)
			} else {
				x := &task{id: i}
				var before *task
				if at < len(model) {
					before = model[at]
				}
				ls.Insert(x, before)
				model = slices.Insert(model, at, x)
			}
			var want []int
			for _, x := range model {
				want = append(want, x.id)
			}
			if got := ids(p, &ls); !slices.Equal(got, want) {
				p.Fatalf("%v, not %v", got, want)
			}
		}
	})
}
