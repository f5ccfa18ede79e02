package list

// Links are an element's neighbours in one list. The zero Links are those of an element
// that is in none.
type Links[T any] struct {
	prev, next *T
}

// Next is the element behind; nil behind the last one.
func (l *Links[T]) Next() *T { return l.next }

// Prev is the element before; nil before the first one.
func (l *Links[T]) Prev() *T { return l.prev }

// Access says which of an element's Links a list uses. It is a struct without fields.
type Access[T any] interface {
	Links(x *T) *Links[T]
}

// List is a list of elements that are not in another list by the same Links.
type List[T any, A Access[T]] struct {
	first, last *T
	n           int
}

// First is the first element; nil when there is none.
func (ls *List[T, A]) First() *T { return ls.first }

// Last is the last element; nil when there is none.
func (ls *List[T, A]) Last() *T { return ls.last }

// Len is how many elements there are.
func (ls *List[T, A]) Len() int { return ls.n }

// Insert puts x before the element at; nil: behind all others.
func (ls *List[T, A]) Insert(x, at *T) {
	var a A
	links := a.Links(x)
	links.next = at
	if at == nil {
		links.prev = ls.last
		ls.last = x
	} else {
		links.prev = a.Links(at).prev
		a.Links(at).prev = x
	}
	if links.prev == nil {
		ls.first = x
	} else {
		a.Links(links.prev).next = x
	}
	ls.n++
}

// Remove takes x, which is in the list, out of it.
func (ls *List[T, A]) Remove(x *T) {
	var a A
	links := a.Links(x)
	if links.prev == nil {
		ls.first = links.next
	} else {
		a.Links(links.prev).next = links.next
	}
	if links.next == nil {
		ls.last = links.prev
	} else {
		a.Links(links.next).prev = links.prev
	}
	*links = Links[T]{}
	ls.n--
}

// TailOf is the first of those elements at the end that all are as f says; nil when
// the last one is not. Where f says of each whether it belongs behind another one,
// that is where to insert that one.
func (ls *List[T, A]) TailOf(f func(*T) bool) *T {
	var a A
	var tail *T
	for x := ls.last; x != nil && f(x); x = a.Links(x).prev {
		tail = x
	}
	return tail
}
