package disclosure

import (
	"iter"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/reach"
	"latchfs/journal/history"
)

// maxGates bounds what is noted of the directories above a content that is kept. Where
// there are more it is its owner's alone.
const maxGates = 8

// nobody is the id that no user and no group has: see setreuid(2).
const nobody = ^uint32(0)

// shut is a gate that nobody passes.
var shut = history.Gate{UID: nobody, GID: nobody}

// ReachOf notes who can reach the names in a directory: which of dirs not everybody may
// search, the descriptors of that directory and of those above it up to the root. They may
// be O_PATH.
func ReachOf(dirs iter.Seq[int]) history.Reach {
	r := history.Reach{Known: true}
	for fd := range dirs {
		g, open := gateOf(fd)
		if open || slices.Contains(r.Gates, g) {
			continue
		}
		if r.Gates = append(r.Gates, g); len(r.Gates) > maxGates {
			r.Gates = []history.Gate{shut}
			break
		}
	}
	return r
}

// gateOf says who may search a directory, and whether everybody may. One with an ACL
// only its owner passes: the ACL may change before anybody asks.
func gateOf(fd int) (g history.Gate, open bool) {
	const search = 0o111
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return shut, false
	}
	g = history.Gate{UID: st.Uid, GID: st.Gid, Mode: st.Mode & search}
	if reach.HasACL(fd) {
		g.GID, g.Mode = nobody, st.Mode&0o100
		return g, false
	}
	return g, g.Mode == search
}

// couldReach reports whether the viewer could reach what is said to have been so.
func couldReach(l *reach.Look, r history.Reach) bool {
	return r.Known && !slices.ContainsFunc(r.Gates, func(g history.Gate) bool {
		return !l.User().May(access.Search, &access.File{UID: g.UID, GID: g.GID, Mode: g.Mode})
	})
}
