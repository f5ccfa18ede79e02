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
	last, single := r.childrenOnce(pid)
	if single && len(last) == 0 {
		return nil // a list that leaves a child out has another one
	}
	for range patience {
		again, _ := r.childrenOnce(pid)
		if bytes.Equal(again, last) {
			break
		}
		last = again
	}
	return procfs.ParsePIDs(last)
}

// childrenOnce reads task/*/children: each thread has its own children, and leaves them to
// another one when it ends. single: there was one thread before the look.
func (r *Reader) childrenOnce(pid int32) (list []byte, single bool) {
	if list, ok := r.keptChildrenOf(pid); ok {
		return list, true
	}
	if r.isSingle(pid) {
		list, _ := r.root.ReadAll(procfs.TaskPath(pid, pid, "children"))
		return list, true
	}
	tids, err := r.root.Threads(pid)
	if err != nil {
		return nil, false
	}
	var all []byte
	for _, tid := range tids {
		list, err := r.root.ReadAll(procfs.TaskPath(pid, tid, "children"))
		if err == nil {
			all = append(all, list...)
		}
	}
	return all, false
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
			if st, err := r.stat(pid); err == nil {
				byParent[st.PPID] = append(byParent[st.PPID], pid)
			}
			return nil
		})
	}
	return func(pid int32) []int32 { return byParent[pid] }
}
