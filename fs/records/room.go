package records

import (
	"maps"
	"slices"
	"sync"

	"latchfs/fs/unfinished"
)

// Room has the appenders of a mount. The zero Room has none.
type Room struct {
	gaps unfinished.Gaps // of records that were taken out of files

	mu    sync.Mutex // guards what follows
	open  map[*Appender]struct{}
	lined map[ID][]*Appender // by their own file, those that hold an unfinished line back
}

func (r *Room) enter(a *Appender) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open, r.lined = map[*Appender]struct{}{}, map[ID][]*Appender{}
	}
	r.open[a] = struct{}{}
}

// Leave takes an appender out of its room. It may be called more than once.
func (a *Appender) Leave() {
	a.room.mu.Lock()
	defer a.room.mu.Unlock()
	delete(a.room.open, a)
}

// Len is how many appenders there are.
func (r *Room) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// holdsLine notes that an appender begins to hold a line back, or no longer does.
func (r *Room) holdsLine(a *Appender, holds bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := a.c.Own
	if holds {
		r.lined[of] = append(r.lined[of], a)
		return
	}
	r.lined[of] = slices.DeleteFunc(r.lined[of], func(b *Appender) bool { return b == a })
	if len(r.lined[of]) == 0 {
		delete(r.lined, of)
	}
}

// HasLines reports whether any of them holds an unfinished line back.
func (r *Room) HasLines() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lined) > 0
}

// Lined are the appenders that were opened on one of these files and hold an unfinished line
// back.
func (r *Room) Lined(files ...ID) (all []*Appender) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range files {
		all = append(all, r.lined[id]...)
	}
	return all
}

// Finish appends what is still held back when the mount has ended.
func (r *Room) Finish() {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for _, a := range all {
		a.queue.Finish()
	}
}
