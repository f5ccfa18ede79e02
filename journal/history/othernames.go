package history

import (
	"maps"
	"math"
	"slices"
)

// OtherNames returns the other paths under which content is kept of files that had path as
// one of their names (hard links): each save of such a file is entered under one name,
// which need not be the one that was written. now is the inode that path has at this
// moment, 0 if it has none: the history may not know of it.
func (s *Store) OtherNames(path string, now uint64) []string {
	mine := spansOf(s.Of(path))
	if now != 0 {
		mine = append(mine, span{path: path, ino: now, from: s.o.Now().UnixNano(), to: math.MaxInt64})
	}
	inodes := map[uint64]bool{}
	for i := range mine {
		inodes[mine[i].ino] = true
	}
	others := map[string]bool{}
	for v := range s.All() {
		if v.Path != path && inodes[v.State.Ino] && !v.Event.gone() {
			others[v.Path] = true
		}
	}
	var names []string
	for _, p := range slices.Sorted(maps.Keys(others)) {
		if keepsOf(spansOf(s.Of(p)), mine) {
			names = append(names, p)
		}
	}
	return names
}

// span is a time in which a path was a name of an inode.
type span struct {
	path, renamed string // where it came from by a rename
	ino           uint64
	from, to      int64
	kept          bool // the content that it had
}

// spansOf are the times of the files that a path has held.
func spansOf(versions []Version) []span {
	var spans []span
	for i := range versions {
		v := &versions[i]
		if v.Event.gone() {
			continue
		}
		sp := span{path: v.Path, renamed: v.From, ino: v.State.Ino, from: v.Time.UnixNano(), to: math.MaxInt64, kept: v.Kept && !v.Current}
		if i+1 < len(versions) {
			sp.to = versions[i+1].Time.UnixNano()
		}
		spans = append(spans, sp)
	}
	return spans
}

// keepsOf reports whether content is kept of an inode that was, at one time, an inode of
// both paths. That inodes are the same does not suffice: a new file may get the number of
// one that is gone.
func keepsOf(theirs, mine []span) bool {
	shared := map[uint64]bool{}
	for i := range theirs {
		for j := range mine {
			if theirs[i].isLinkOf(&mine[j]) {
				shared[theirs[i].ino] = true
			}
		}
	}
	return slices.ContainsFunc(theirs, func(t span) bool { return t.kept && shared[t.ino] })
}

// isLinkOf reports whether two names were names of one inode at one time. A rename makes
// the new name a moment before it takes the old one away.
func (a *span) isLinkOf(b *span) bool {
	return a.ino == b.ino && a.from < b.to && b.from < a.to && a.renamed != b.path && b.renamed != a.path
}
