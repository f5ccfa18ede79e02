package advisory

import "latchfs/lockmgr"

// unlockAtEnd drops the byte ranges of a process at its end where no FLUSH will tell of
// that: somebody who inherited the descriptor may keep it open.
func (r *Room) unlockAtEnd(f File, c Client, o lockmgr.Owner) {
	if f.IsTold() || !r.watch(f, c) {
		return
	}
	dead, stop, err := r.c.Procs.Watch(o)
	if err != nil {
		r.c.Logf("the end of process %d cannot be watched: %v", o.PID, err)
		return
	}
	go func() {
		defer stop()
		select {
		case <-dead:
			r.Closed(f, c.ID)
			r.unwatch(f, c)
		case <-r.c.Done:
		}
	}()
}

// watch notes that the end of a process is watched that locks through a file; false if it
// was watched already.
func (r *Room) watch(f File, c Client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ls := r.lockersLocked(f)
	if ls.watched[c] {
		return false
	}
	if ls.watched == nil {
		ls.watched = map[Client]bool{}
	}
	ls.watched[c] = true
	return true
}

func (r *Room) unwatch(f File, c Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ls := r.files[f.ID()]; ls != nil {
		delete(ls.watched, c)
	}
}

// Leaving reports whether the holder of a client's lock is dead, or has closed each file
// through which the client has locked, and returns what tells of the end of its locks. Of a
// session's lock it is false.
func (r *Room) Leaving(x *lockmgr.Holder) (ends []<-chan struct{}, all bool) {
	if x.Class == lockmgr.Session || x.Token == 0 || x.Owner.PID == 0 {
		return nil, false
	}
	for _, f := range r.through(Client{x.Class, x.Client}) {
		end := r.end(f)
		if n, err := f.Opens(x.Owner.PID); err != nil || n > 0 {
			return nil, false
		}
		ends = append(ends, end)
	}
	return ends, true
}

// end returns a channel that is closed when locks that were taken through a file next end
// with it.
func (r *Room) end(f File) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	ls := r.files[f.ID()]
	if ls == nil {
		return ended
	}
	if ls.ended == nil {
		ls.ended = make(chan struct{})
	}
	return ls.ended
}

// ended is the end of what has ended.
var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (r *Room) announceEnd(f File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ls := r.files[f.ID()]; ls != nil && ls.ended != nil {
		close(ls.ended)
		ls.ended = nil
	}
}
