package readclaim

import (
	"slices"

	"latchfs/lockmgr"
)

// mark says that a process, or a program among its children, has read a file and
// not written it while it had the claim.
type mark struct {
	path  string
	owner lockmgr.Owner
	comm  string // of the child; "" for the process itself
}

// maxMarks is when those of dead processes are swept out.
const maxMarks = 4096

// markLocked notes that a claim was of no use. cs.mu is held.
func (cs *Claims) markLocked(cl *Claim) {
	if len(cs.marks) >= maxMarks {
		for m := range cs.marks {
			if !cs.Procs.Alive(m.owner) {
				delete(cs.marks, m)
			}
		}
		if len(cs.marks) >= maxMarks {
			clear(cs.marks)
		}
	}
	m := mark{path: cl.path, owner: cl.owner}
	if cl.owner != cl.reader {
		m.comm = cl.comm
	}
	cs.marks[m] = true
	cs.marked.Store(int32(len(cs.marks)))
}

// IsMarked reports whether a reader is known to read a path and not to write it.
func (cs *Claims) IsMarked(r Reader, path string) bool {
	if cs.marked.Load() == 0 {
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.marks[mark{path: path, owner: r.Owner}] || slices.ContainsFunc(r.Relatives, func(o lockmgr.Owner) bool {
		return cs.marks[mark{path: path, owner: o, comm: r.Comm}]
	})
}

// Unmark notes that a process, or another one that it has started, is about to write paths
// after all. of are the process and its ancestors.
func (cs *Claims) Unmark(of []lockmgr.Owner, paths []string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for m := range cs.marks {
		if slices.Contains(paths, m.path) && slices.Contains(of, m.owner) {
			delete(cs.marks, m)
		}
	}
	cs.marked.Store(int32(len(cs.marks)))
}

// Any reports whether there are claims, and whether there are marks.
func (cs *Claims) Any() (claims, marks bool) { return cs.held.Load() > 0, cs.marked.Load() > 0 }

// moveMarksLocked is Follow of the marks. cs.mu is held.
func (cs *Claims) moveMarksLocked(now func(path string) string) {
	marks := make(map[mark]bool, len(cs.marks))
	for m := range cs.marks {
		m.path = now(m.path)
		marks[m] = true
	}
	cs.marks = marks
	cs.marked.Store(int32(len(marks)))
}
