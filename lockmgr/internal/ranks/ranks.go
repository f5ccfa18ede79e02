package ranks

import "latchfs/lockmgr/internal/list"

// gap is the distance between the ranks of elements that are appended one after
// another; others can be put between them.
const gap = 1 << 20

// Access says which of an element's Links a list uses, and where its rank is. It is a
// struct without fields.
type Access[T any] interface {
	list.Access[T]
	Rank(x *T) *uint64
}

// List is a list in the order of the ranks. The zero List is empty.
type List[T any, A Access[T]] struct {
	list list.List[T, A]
}

// First is the first element; nil when there is none.
func (ls *List[T, A]) First() *T { return ls.list.First() }

// Len is how many elements there are.
func (ls *List[T, A]) Len() int { return ls.list.Len() }

// Append puts x, which is in no list, behind all others.
func (ls *List[T, A]) Append(x *T) {
	var a A
	rank := uint64(gap)
	if last := ls.list.Last(); last != nil {
		rank += *a.Rank(last)
	}
	*a.Rank(x) = rank
	ls.list.Insert(x, nil)
}

// Remove takes x, which is in the list, out of it.
func (ls *List[T, A]) Remove(x *T) { ls.list.Remove(x) }

// Lead puts the elements of set, in their order, right before w, which is none of them.
func (ls *List[T, A]) Lead(set []*T, w *T) {
	var a A
	for _, x := range set {
		ls.list.Remove(x)
	}
	var low uint64
	if before := a.Links(w).Prev(); before != nil {
		low = *a.Rank(before)
	}
	step := (*a.Rank(w) - low) / uint64(len(set)+1)
	for _, x := range set {
		ls.list.Insert(x, w)
		low += step
		*a.Rank(x) = low
	}
	if step == 0 {
		ls.rankAnew()
	}
}

func (ls *List[T, A]) rankAnew() {
	var a A
	var rank uint64
	for x := ls.list.First(); x != nil; x = a.Links(x).Next() {
		rank += gap
		*a.Rank(x) = rank
	}
}
