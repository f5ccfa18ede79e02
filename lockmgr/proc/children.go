package proc

import (
	"bytes"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// Descendants lists the living descendants of a process, nearest first. A
// descendant whose parent has died belongs to init and is not among them.
func (r *Reader) Descendants(pid int32) []int32 {
	children := r.children
	if !r.kids {
		children = r.childrenByScan()
	}
	found := children(pid)
	for i := 0; i < len(found); i++ {
		found = append(found, children(found[i])...)
	}
	return found
}

// children lists the children of a process. The kernel may leave some out when
// another child dies while it lists them (proc_pid_children(5)), therefore
// it is asked until it says the same twice.
func (r *Reader) children(pid int32) []int32 {
	const patience = 4
	last := r.childrenOnce(pid)
	if last.ofFirst && len(last.list) == 0 {
		return nil // a list that leaves a child out has another one
	}
	for range patience {
		again := r.childrenOnce(pid)
		if bytes.Equal(again.list, last.list) {
			if !last.elsewhere && !again.elsewhere && last.told == again.told {
				r.forks.NoneElsewhere(pid, last.told)
			}
			break
		}
		last = again
	}
	return procfs.ParsePIDs(last.list)
}

// childList is what one look has shown of the children of a process.
type childList struct {
	list      []byte
	ofFirst   bool   // only the first thread was looked at: it has all of them
	elsewhere bool   // another thread has some
	told      uint64 // see Table.Elsewhere; 0 where that was not asked
}

// childrenOnce reads task/*/children: each thread has its own children, and leaves them to
// another one when it ends. Where no other one can have any it is the first thread's list.
func (r *Reader) childrenOnce(pid int32) (c childList) {
	if list, ok := r.keptChildrenOf(pid); ok {
		return childList{list: list, ofFirst: true}
	}
	if r.isSingle(pid) {
		list, _ := r.root.ReadAll(procfs.TaskPath(pid, pid, "children"))
		return childList{list: list, ofFirst: true}
	}
	if c.told = r.forks.Elsewhere(pid); c.told == 0 {
		if list, ok := r.childrenOfFirst(pid); ok {
			return childList{list: list, ofFirst: true}
		}
	}
	tids, err := r.root.Threads(pid)
	if err != nil {
		return childList{}
	}
	for _, tid := range tids {
		list, err := r.root.ReadAll(procfs.TaskPath(pid, tid, "children"))
		c.list = append(c.list, list...)
		if tid != pid && (len(list) > 0 || procfs.IgnoreGone(err) != nil) {
			c.elsewhere = true
		}
	}
	return c
}

// childrenOfFirst is the list of the first thread; not ok if that is ending, and may have
// left its children to another one.
func (r *Reader) childrenOfFirst(pid int32) (list []byte, ok bool) {
	list, kept := r.keptList(pid)
	if !kept {
		var err error
		if list, err = r.root.ReadAll(procfs.TaskPath(pid, pid, "children")); err != nil {
			return nil, false
		}
	}
	_ = r.withPIDFile(pid, keptStatm, "statm", func(b []byte) error {
		ok = procfs.HasMemory(b)
		return nil
	})
	return list, ok
}

// isSingle reports whether a process has its first thread only, without a look at each:
// the kernel counts the threads as the links of their directory.
func (r *Reader) isSingle(pid int32) bool {
	var st unix.Stat_t
	return unix.Fstatat(r.root.Dir(), procfs.PIDPath(pid, "task"), &st, 0) == nil && st.Nlink == 3
}

// childrenByScan is for kernels built without CONFIG_PROC_CHILDREN: it looks at
// every process once and returns who is whose child.
func (r *Reader) childrenByScan() func(int32) []int32 {
	byParent := map[int32][]int32{}
	if dir, err := r.root.OpenDir("."); err == nil {
		defer unix.Close(dir)
		_ = procfs.Numbers(dir, func(pid int32) error {
			if st, err := r.statOf(pid); err == nil {
				byParent[st.PPID] = append(byParent[st.PPID], pid)
			}
			return nil
		})
	}
	return func(pid int32) []int32 { return byParent[pid] }
}
