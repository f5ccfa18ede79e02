package fs

import (
	"slices"

	"latchfs/lockmgr"
)

// mark says that a process, or a program among its children, has read a file and
// not written it while it had the claim: it reads that file without one from then
// on, until it writes it.
type mark struct {
	path  string
	owner lockmgr.Owner
	comm  string // of the child; "" for the process itself
}

// maxMarks is when those of dead processes are swept out.
const maxMarks = 4096

// markLocked notes that a claim was of no use. rs.mu is held.
func (rs *readClaims) markLocked(cl *readClaim) {
	if len(rs.marks) >= maxMarks {
		for m := range rs.marks {
			if !rs.f.proc.Alive(m.owner) {
				delete(rs.marks, m)
			}
		}
		if len(rs.marks) >= maxMarks {
			clear(rs.marks)
		}
	}
	m := mark{path: cl.path, owner: cl.owner}
	if cl.owner != cl.reader {
		m.comm = cl.comm
	}
	rs.marks[m] = true
	rs.marked.Store(int32(len(rs.marks)))
}

// isMarked reports whether a process is known to read a path and not to write it.
func (rs *readClaims) isMarked(c *caller, path string, relatives []lockmgr.Owner) bool {
	if rs.marked.Load() == 0 {
		return false
	}
	comm := c.program()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.marks[mark{path: path, owner: c.owner}] || slices.ContainsFunc(relatives, func(o lockmgr.Owner) bool {
		return rs.marks[mark{path: path, owner: o, comm: comm}]
	})
}

// unmark notes that a process is about to write a path after all.
func (rs *readClaims) unmark(d *demand) {
	if rs.marked.Load() == 0 || d.mode != lockmgr.Exclusive {
		return
	}
	up := d.c.ancestors()
	var paths []string
	for _, p := range d.places {
		paths = append(paths, rs.f.path(p.dir, p.name))
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, path := range paths {
		for m := range rs.marks {
			if m.path == path && (m.owner == d.c.owner || slices.ContainsFunc(up, func(a lockmgr.Ancestor) bool { return a.Owner == m.owner })) {
				delete(rs.marks, m)
			}
		}
	}
	rs.marked.Store(int32(len(rs.marks)))
}
