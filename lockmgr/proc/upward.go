package proc

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// upward is the lineage of a process. It stays as it is as long as its ancestors live: a
// process gets another parent only when its own ends.
type upward struct {
	ppid      int32
	ancestors []lockmgr.Ancestor
	pidfds    []unix.PollFd // of the ancestors, but the first process
}

// maxPidfds is how many ancestors are watched for one process.
const maxPidfds = 16

// watchUp watches the ancestors; nil if they cannot be watched, or one has ended already.
// They were looked at before: who has ended since is not found by its pid, or has a
// descriptor that says so.
func (r *Reader) watchUp(ppid int32, ancestors []lockmgr.Ancestor) *upward {
	up := &upward{ppid: ppid, ancestors: ancestors}
	for _, a := range ancestors {
		if a.Owner.PID == 1 {
			continue
		}
		fd, err := unix.PidfdOpen(int(a.Owner.PID), 0)
		if err != nil || len(up.pidfds) == maxPidfds {
			up.close()
			return nil
		}
		up.pidfds = append(up.pidfds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return up
}

// live reports whether all ancestors do.
func (up *upward) live() bool {
	if len(up.pidfds) == 0 {
		return true
	}
	n, err := unix.Poll(up.pidfds, 0)
	return n == 0 && err == nil
}

func (up *upward) close() {
	if up == nil {
		return
	}
	for _, p := range up.pidfds {
		unix.Close(int(p.Fd))
	}
	up.pidfds = nil
}

// keptLineage is the lineage of a process of which files are kept, with look to find it.
// It is not ok if none are, or the process was not looked at just now.
func (r *Reader) keptLineage(pid int32, look func() []lockmgr.Ancestor) (ancestors []lockmgr.Ancestor, ok bool) {
	self, err := r.remembered(pid)
	if err != nil {
		return nil, false
	}
	k := r.keeper.borrow(pid)
	if k == nil {
		return nil, false
	}
	defer r.keeper.giveBack(k)
	if k.o != self.leader() {
		return nil, false
	}
	k.line.Lock()
	defer k.line.Unlock()
	if up := k.up; up != nil && up.ppid == self.ppid && up.live() {
		return up.ancestors, true
	}
	k.up.close()
	k.up = nil
	ancestors = look()
	if len(ancestors) == 0 || ancestors[0].Owner.PID != self.ppid {
		return ancestors, true
	}
	up := r.watchUp(self.ppid, ancestors)
	// They were watched after the look: that they are the same is to be seen.
	if up != nil && up.live() && r.areStill(ancestors) {
		k.up = up
	} else {
		up.close()
	}
	return ancestors, true
}

// areStill reports whether the processes are those that have their pids, each the parent
// of the one before, up to the first.
func (r *Reader) areStill(list []lockmgr.Ancestor) bool {
	for i := range list {
		st, err := r.statOf(list[i].Owner.PID)
		if err != nil || st.Start != list[i].Owner.Start {
			return false
		}
		parent := int32(0)
		if i+1 < len(list) {
			parent = list[i+1].Owner.PID
		}
		if st.PPID != parent {
			return false
		}
	}
	return true
}
