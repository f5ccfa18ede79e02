package fs

import (
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// watchedTable is a lock table that says when a lock that is held is given back.
type watchedTable struct {
	*lockmgr.Table
	released func()
}

// Release implements lockmgr.Granter.
func (w *watchedTable) Release(l *lockmgr.Lock) {
	if slices.ContainsFunc(w.Snapshot().Held, func(h lockmgr.Holder) bool { return h.Lock == l }) {
		w.released()
	}
	w.Table.Release(l)
}

// A session that has ended still has its lock for a moment. The mount does not count as
// drained before it has given it back, or whoever waits for it would be refused.
func TestDrainAwaitsTheLockOfASession(t *testing.T) {
	for name, end := range map[string]func(r *requests){
		"committed": func(r *requests) {
			id, fh, _ := r.session(unix.O_WRONLY)
			r.write(id, fh, 0, "new")
			r.closes(id, fh)
			r.release(id, fh)
		},
		"unchanged": func(r *requests) {
			id, fh, _ := r.session(unix.O_WRONLY)
			r.closes(id, fh)
			r.release(id, fh)
		},
		"renamed over": func(r *requests) {
			id, fh, s := r.session(unix.O_WRONLY)
			r.f.moves.detach(s, true)
			r.closes(id, fh)
			r.release(id, fh)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ended, early atomic.Int32
			var f *FS
			table := &watchedTable{released: func() {
				ended.Add(1)
				if f != nil && f.life.isDrained() {
					early.Add(1)
				}
			}}
			r, _ := unmountedWith(t, "", func(first uint64) lockmgr.Authority {
				table.Table = lockmgr.New(lockmgr.Options{FirstToken: first})
				return table
			})
			f = r.f
			r.replace("old")
			end(r)
			if ended.Load() == 0 {
				t.Fatal("no lock was given back")
			}
			if n := early.Load(); n > 0 {
				t.Errorf("the mount was drained %d times before a lock was given back", n)
			}
			if !f.life.isDrained() {
				t.Error("the mount is not drained in the end")
			}
		})
	}
}
