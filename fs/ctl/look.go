package ctl

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// check says of each thing asked about who holds it, in the order of the question.
func (q *query) check() *control.Reply {
	out := &control.Reply{OK: true}
	sight := q.s.Views.Sight(q.v)
	waiters := sync.OnceValue(func() map[lockmgr.Key]int {
		snap := q.s.Table.Snapshot()
		return snap.Waiters()
	})
	for _, one := range q.s.askedAbout(q.r) {
		path, name := one.First()
		if !q.reaches(&one, sight) {
			return denies(path)
		}
		hs := q.s.Table.Holders(q.s.Engine.Keys(&one))
		if len(hs) == 0 {
			if name == "" {
				name = path
			}
			free, err := json.Marshal(map[string]any{"lock_name": name, "locked": false})
			if err == nil {
				out.Locks = append(out.Locks, free)
			}
			continue
		}
		r, at := foremost(q, hs, path, sight)
		r.Waiters = waiters()[lockmgr.Key(at)]
		out.Locks = append(out.Locks, report.AppendLock(nil, r, time.Now(), q.v))
	}
	return out
}

// foremost is the record of the holder of whom the requester is told, and the key at which that is
// shown: itself or its ancestor, where that is among the holders, and else the first. A reader's
// fcntl lock stands beside an exclusive one.
func foremost(q *query, hs []lockmgr.Holder, path string, sight report.Sight) (r *report.Record, at string) {
	for i := range hs {
		if one := q.shown(&hs[i], path, sight); i == 0 || q.v.Holds(one) {
			r, at = one, lockkey.ShownAt(&hs[i], path)
			if q.v.Holds(r) {
				break
			}
		}
	}
	return r, at
}

// list lists what is held, by anybody or by the requester.
func (q *query) list() *control.Reply {
	out := &control.Reply{OK: true, Locks: []json.RawMessage{}}
	var mine map[string]bool
	if q.r.Mine {
		own, rep := q.own()
		if rep != nil {
			return rep
		}
		mine = map[string]bool{}
		for _, cl := range own {
			mine[cl.ID()] = true
		}
	}
	sight := q.s.Views.Sight(q.v)
	held := q.s.Views.Held()
	for i := range held {
		if r, ok := held[i].ShownTo(q.v, sight); ok && (mine == nil || mine[r.Session]) {
			out.Locks = append(out.Locks, report.AppendLock(nil, r, time.Now(), q.v))
		}
	}
	return out
}

// shown is the record of a lock as the requester may see it, who asked for path.
func (q *query) shown(h *lockmgr.Holder, path string, sight report.Sight) *report.Record {
	r := q.s.Engine.Record(h, lockkey.Shown(h))
	return r.ShownInTheWay(path, q.viewer(), sight)
}

// reaches reports whether the requester can reach everything that a target names, or
// could if it were there.
func (q *query) reaches(t *lockkey.Target, sight report.Sight) bool {
	for _, p := range slices.Concat(t.Paths, t.Trees) {
		if sight != nil && !sight.Sees(p, q.c.UID()) {
			return false
		}
	}
	return true
}

// denies refuses to say anything about a path that the requester cannot reach.
func denies(path string) *control.Reply {
	return refused(control.NotAllowed, fmt.Sprintf("%q: %v", path, unix.EACCES))
}
