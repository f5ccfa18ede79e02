package lockview

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// Release ends the lock of a group, the records of all who hold it as they were shown, on
// behalf of a viewer. Its error is an errno: ENOENT if nobody holds it any more.
func (w View) Release(group []report.Record, v report.Viewer) error {
	t := lockkey.Target{Paths: []string{group[0].Path}}
	if group[0].Name != "" {
		t = lockkey.Target{Names: []string{group[0].Name}}
	}
	tokens := map[uint64]bool{}
	for _, r := range group {
		tokens[r.Token] = true
	}
	var todo []lockmgr.Holder
	for _, h := range w.Table.Holders(w.Engine.Keys(&t)) {
		switch {
		case !tokens[h.Token]: // another one's beside it or above, or one that was granted since it was shown
			continue
		case w.isOwn(&h, v):
		case w.isLeft(&h) && isUsers(&h, v):
		case h.Stale:
			return unix.EPERM
		default:
			return unix.EBUSY
		}
		todo = append(todo, h)
	}
	if len(todo) == 0 {
		return unix.ENOENT
	}
	for i := range todo {
		w.takeAway(&todo[i])
	}
	w.Engine.SettleThefts(nil)
	return nil
}

// isUsers reports whether a lock is the viewer's user's.
func isUsers(h *lockmgr.Holder, v report.Viewer) bool {
	lb := labelOf(h)
	return v.Privileged || lb != nil && lb.UID() == v.UID
}

// isOwn reports whether the viewer may release a lock as its own.
func (w View) isOwn(h *lockmgr.Holder, v report.Viewer) bool {
	if !isUsers(h, v) || !v.Holds(&report.Record{Asker: report.Asker{Owner: report.Process{PID: h.Owner.PID, Start: h.Owner.Start}}}) {
		return false
	}
	lb := labelOf(h)
	return h.Class != lockmgr.Session || lb != nil && (lb.Claim() != nil || lb.ReadClaim() != nil)
}

// isLeft reports whether nobody has a lock any more who shows a sign of life.
func (w View) isLeft(h *lockmgr.Holder) bool {
	lb := labelOf(h)
	return h.Stale || lb != nil && lb.Claim() != nil && w.Engine.IsOrphaned(lb.Claim())
}

// takeAway releases a lock on behalf of its owner, or steals it if it is stale.
func (w View) takeAway(h *lockmgr.Holder) {
	lb := labelOf(h)
	switch {
	case h.Stale && w.Table.Steal(h.Lock) == nil:
	case h.Class != lockmgr.Session && len(h.Keys) > 0:
		w.Table.Unlock(h.Keys[0], h.Class, h.Client, lockmgr.Whole)
	case lb == nil:
	case lb.ReadClaim() != nil:
		w.Engine.DropRead(lb.ReadClaim())
	case lb.Claim() != nil:
		w.Engine.Drop(lb.Claim())
	}
}
