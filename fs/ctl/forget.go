package ctl

import (
	"fmt"
	"strconv"
	"strings"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
)

// forget erases what is kept of a file: its earlier versions and the bytes that were
// refused. To root everything is to be erased, to others what was their own file's.
func (q *query) forget(t *lockkey.Target) *control.Reply {
	path := t.Paths[0]
	if !q.reaches(t, q.s.Views.Sight(q.v)) {
		return denies(path)
	}
	others := 0
	mine := func(uid uint32) bool {
		if q.v.Privileged || uid == q.c.UID() {
			return true
		}
		others++
		return false
	}
	n, err := q.s.Engine.Erase(q.c, path, q.r.Version, mine)
	out := &control.Reply{OK: true, Versions: n.Versions, Rejected: n.Rejected, Bytes: n.Bytes}
	nothing := out.Versions+out.Rejected == 0
	switch {
	case err != nil:
		return refused(control.Unavailable, fmt.Sprintf("%q: not everything is erased: %v", path, err))
	case others > 0 && nothing:
		return refused(control.NotAllowed, fmt.Sprintf("%q: what is kept of it is another user's to erase", path))
	}
	return q.leaves(out, path, others)
}

// leaves adds to the answer of forget what there still is: whoever wants a secret to be
// gone must not take it for gone. Where nothing was erased that is a refusal.
func (q *query) leaves(out *control.Reply, path string, others int) *control.Reply {
	nothing := out.Versions+out.Rejected == 0
	if q.r.Version > 0 && !nothing {
		return out
	}
	left := q.s.Engine.Unerased(q.v, path, q.r.Version)
	var notes []string
	if others > 0 {
		notes = append(notes, fmt.Sprintf("%d kept contents of it are another user's, and were left", others))
	}
	switch {
	case q.r.Version > 0 && !left.Known:
		return refused(control.NoSuchVersion, fmt.Sprintf("%q: it has no version %d, or that is not known any more", path, q.r.Version))
	case left.Current:
		return refused(control.NoSuchVersion, fmt.Sprintf("%q: version %d is what the file holds now: only earlier versions are erased", path, q.r.Version))
	case q.r.Version > 0:
		out.Warning = fmt.Sprintf("nothing is kept of version %d", q.r.Version)
		return out
	}
	if len(left.Names) > 0 {
		notes = append(notes, "content of it is kept under other names that the file has or had: forget "+quoted(left.Names)+", too")
	}
	if left.Below {
		notes = append(notes, "content of files below it is kept: forget those one by one, as `latchfs history` and `latchfs rejected list` show them")
	}
	switch {
	case len(notes) == 0 && nothing:
		out.Warning = "nothing is kept of it"
	case nothing:
		return refused(control.StillKept, fmt.Sprintf("%q: nothing is erased: %s", path, strings.Join(notes, "; ")))
	default:
		out.Warning = strings.Join(notes, "; ")
	}
	return out
}

// quoted lists names, the first ones of many.
func quoted(names []string) string {
	const most = 10
	var list []string
	for i, name := range names {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		list = append(list, strconv.Quote(name))
	}
	return strings.Join(list, ", ")
}
