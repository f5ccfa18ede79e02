// Package list is a doubly linked list whose links lie in the elements. It is pure.
//
// So an element knows its neighbours, goes without a search, and needs no memory for
// being in a list; it can be in as many lists at a time as it has Links for. Which of
// its Links a list uses says the type of the list:
//
//	type task struct {
//		queue list.Links[task]
//		...
//	}
//
//	type inQueue struct{}
//
//	func (inQueue) Links(t *task) *list.Links[task] { return &t.queue }
//
//	var queue list.List[task, inQueue]
//
// The zero List is empty. A List has no mutex; its user's guards it and its elements.
package list
