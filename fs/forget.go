package fs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
	"latchfs/journal"
	"latchfs/journal/history"
)

// eventForget is written when earlier versions or refused bytes were erased.
const eventForget = "forget"

// forget erases what is kept of a file: its earlier versions and the bytes that were
// refused. To root everything is to be erased, to others what was their own file's.
func (q *query) forget(t lockkey.Target) *control.Reply {
	f, path := q.f, t.Paths[0]
	if !q.reaches(&t, f.source.Sight(q.v)) {
		return refused(control.NotAllowed, fmt.Sprintf("%q: %v", path, unix.EACCES))
	}
	out := &control.Reply{OK: true}
	others := 0
	mine := func(uid uint32) bool {
		if q.v.Privileged || uid == q.c.uid {
			return true
		}
		others++
		return false
	}
	var errs []error
	if f.history != nil {
		n, bytes, err := f.history.Forget(path, func(v *history.Version) bool {
			return (q.r.Version == 0 || v.Number == q.r.Version) && mine(v.Rights.UID)
		})
		out.Versions, out.Bytes, errs = n, bytes, append(errs, err)
	}
	if q.r.Version == 0 {
		n, bytes, err := f.source.rejects.erase(path, mine)
		out.Rejected, out.Bytes, errs = n, out.Bytes+bytes, append(errs, err)
	}
	if out.Versions+out.Rejected > 0 {
		f.event(journal.Event{
			Time: time.Now(), Event: eventForget, Path: path, PID: q.c.owner.PID, Actor: f.actorOf(&label{c: q.c}),
			Detail: map[string]any{
				"versions": out.Versions, "rejected": out.Rejected, "bytes": out.Bytes, "program": q.c.program(), "uid": q.c.uid,
			},
		})
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		return refused(control.Unavailable, fmt.Sprintf("%q: not everything is erased: %v", path, err))
	case others > 0 && out.Versions+out.Rejected == 0:
		return refused(control.NotAllowed, fmt.Sprintf("%q: what is kept of it is another user's to erase", path))
	case others > 0:
		out.Warning = fmt.Sprintf("%d kept contents of it are another user's, and were left", others)
	case out.Versions+out.Rejected == 0:
		out.Warning = "nothing is kept of it"
	}
	return out
}

// erase removes the kept bytes that were meant for the file at path, as far as they are
// the requester's.
func (rj *rejects) erase(path string, mine func(uid uint32) bool) (entries int, bytes int64, err error) {
	dir, err := rj.open()
	if errors.Is(err, unix.ENOENT) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(dir)
	list, err := readEntries(dir, isRejectedID)
	if err != nil {
		return 0, 0, err
	}
	var ids []string
	for i := range list {
		id := list[i].name
		k, st, ok := rj.find(dir, id)
		if !ok || k.path != path || !mine(k.uid) {
			continue
		}
		ids, bytes = append(ids, id), bytes+st.Size
	}
	if len(ids) == 0 {
		return 0, 0, nil
	}
	slices.Sort(ids)
	return len(ids), bytes, rj.f.store.ForgetRejected(ids)
}
