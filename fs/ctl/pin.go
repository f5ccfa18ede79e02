package ctl

import (
	"fmt"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
)

// pinCost is what a pinned version costs in memory beside its path.
const pinCost = 200

// pinned is a version that a conversation has pinned.
type pinned struct {
	path    string
	version uint64
}

func (p pinned) cost() int64 { return int64(len(p.path)) + pinCost }

// pin keeps a version of a file from making room for newer ones, until unpin or the end of
// the conversation.
func (q *query) pin(t *lockkey.Target) *control.Reply {
	cv, p := q.cv, pinned{t.Paths[0], q.r.Version}
	if cv.hasPinned(p) {
		return &control.Reply{OK: true, Versions: 1}
	}
	if !q.s.Book.Take(cv.c.UID(), p.cost()) {
		return refused(control.Unavailable, "this user's pinned versions and locks take as much memory as one user may have")
	}
	release, ok := q.s.Engine.Pin(q.v, p.path, p.version)
	if !ok {
		q.s.Book.Give(cv.c.UID(), p.cost())
		return refused(control.NotKept, fmt.Sprintf("version %d of %q is not kept any more", p.version, p.path))
	}
	if !cv.keepPin(p, release) {
		cv.endPin(p, release)
	}
	return &control.Reply{OK: true, Versions: 1}
}

// unpin ends that. What is not pinned is no error.
func (cv *Conversation) unpin(p pinned) *control.Reply {
	cv.mu.Lock()
	release := cv.pins[p]
	delete(cv.pins, p)
	cv.mu.Unlock()
	if release == nil {
		return &control.Reply{OK: true, Warning: "it was not pinned"}
	}
	cv.endPin(p, release)
	return &control.Reply{OK: true, Versions: 1}
}

func (cv *Conversation) hasPinned(p pinned) bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return cv.pins[p] != nil
}

// keepPin makes a pin the conversation's. It is false if that is over, or has it already.
func (cv *Conversation) keepPin(p pinned, release func()) bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	if cv.closed || cv.pins[p] != nil {
		return false
	}
	if cv.pins == nil {
		cv.pins = map[pinned]func(){}
	}
	cv.pins[p] = release
	return true
}

// endPin lets a version go that is not the conversation's any more.
func (cv *Conversation) endPin(p pinned, release func()) {
	release()
	cv.s.Book.Give(cv.c.UID(), p.cost())
}
