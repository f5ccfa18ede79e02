package report

import (
	"fmt"
	"slices"
)

// Process is a process that cannot be mistaken for a later one of the same
// number: its id and its start time in clock ticks since boot. PID 0 stands
// for a process in a pid namespace that the daemon cannot see.
type Process struct {
	PID   int32
	Start uint64
}

// Viewer is who looks at the tree.
type Viewer struct {
	// UID is the user the viewer acts as (its fsuid).
	UID uint32
	// GIDs are groups of the viewer: all of them if AllGroups says so. See May.
	GIDs      []uint32
	AllGroups bool
	// PID is the viewer's process, 0 when it is in a foreign pid namespace.
	PID int32
	// Privileged viewers (root and the mount's owner) see every command line
	// and working directory, and all kept bytes.
	Privileged bool
	// Lineage is the viewer's process and its ancestors, nearest first. What
	// one of them holds is marked as the viewer's own (SEED W8, we_hold_it).
	// It may be left empty: then PID alone decides.
	Lineage []Process
}

// sees reports whether the viewer may read uid's command lines and directories.
func (v Viewer) sees(uid uint32) bool { return v.Privileged || v.UID == uid }

// The rights of access(2), for May.
const (
	RightRead   = 4
	RightSearch = 1
)

// May reports whether the viewer has the right want to a file of this owner,
// group and mode. Where not all of a viewer's groups are known, what a file denies
// its group it denies to the rest here. ACLs are not asked.
func (v Viewer) May(want, uid, gid, mode uint32) bool {
	switch {
	case v.Privileged:
		return true
	case v.UID == uid:
		mode >>= 6
	case slices.Contains(v.GIDs, gid):
		mode >>= 3
	case !v.AllGroups:
		mode &= mode >> 3
	}
	return mode&want == want
}

// Holds reports whether r belongs to the viewer or to one of its ancestors.
func (v Viewer) Holds(r *Record) bool {
	if r.Owner.PID == 0 {
		return false
	}
	for _, p := range v.Lineage {
		if p == r.Owner {
			return true
		}
	}
	return len(v.Lineage) == 0 && v.PID == r.Owner.PID
}

// Credentials tells viewers apart by what they may see: equal strings, equal sights.
func (v Viewer) Credentials() string {
	if v.Privileged {
		return "all"
	}
	return fmt.Sprint(v.UID, slices.Sorted(slices.Values(v.GIDs)), v.AllGroups)
}
