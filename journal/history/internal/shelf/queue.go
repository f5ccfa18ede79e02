package shelf

import "latchfs/journal/history/internal/arena"

// links make an item part of a queue.
type links struct{ prev, next uint32 }

func (i *Item) inAge() *links  { return &i.age }
func (i *Item) ofUser() *links { return &i.mine }

// queue is items in their order.
type queue struct{ first, last uint32 }

func (q *queue) push(a *arena.Arena[Item], i uint32, of func(*Item) *links) {
	*of(a.At(i)) = links{prev: q.last}
	if q.last != 0 {
		of(a.At(q.last)).next = i
	} else {
		q.first = i
	}
	q.last = i
}

func (q *queue) remove(a *arena.Arena[Item], i uint32, of func(*Item) *links) {
	l := *of(a.At(i))
	if l.prev != 0 {
		of(a.At(l.prev)).next = l.next
	} else {
		q.first = l.next
	}
	if l.next != 0 {
		of(a.At(l.next)).prev = l.prev
	} else {
		q.last = l.prev
	}
}
