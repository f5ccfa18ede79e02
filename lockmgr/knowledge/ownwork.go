package knowledge

import (
	"slices"

	"latchfs/lockmgr"
)

// IsOwnWork reports whether all that a rename would lose was made by the process that renames
// itself, or by the script that has run it and the writer of the file that it renames:
// sed f > t; echo more > f; mv t f. The writers are that one, which is the decider or a
// descendant of it, with its relatives, the nearest first.
//
// The script is the nearest process that has started both; those between it and the process
// that renames count with it. What they have started beside the two does not: nothing tells a
// step that came between them from a worker that runs beside them. Where it is true the caller
// asks again, without the writers: the process that renames, and its relatives, may have read
// the file themselves.
func (b *Basis) IsOwnWork(who Who, writers []lockmgr.Owner) bool {
	lineage := who.lineage()
	script := slices.IndexFunc(writers, func(o lockmgr.Owner) bool { return slices.Contains(lineage, o) })
	decider := slices.Index(writers, b.By)
	if decider < 0 || script >= 0 && decider >= script {
		return false // a process knows better that has not gone on from the writer's work
	}
	if !b.remembersAll() {
		return false
	}
	own := lineage[:1]
	if script >= 0 {
		own = lineage[:slices.Index(lineage, writers[script])+1]
	}
	return !slices.ContainsFunc(b.Since, func(c Change) bool {
		return !c.madeBy(b.By) && (len(c.owners) == 0 || !slices.Contains(own, c.owners[0]))
	})
}

// IsUndo reports whether all that a rename would lose was made by the script that has run both
// the process that renames and the writer of the file that it renames, or by what the script
// has started: cp f f.bak; sed -i … f; mv f.bak f. If the file holds the known version, the
// script takes back its own changes. The writers are as for IsOwnWork.
//
// Of a process that renames what it has itself written (sed -i), the script is that process
// alone: it runs beside its siblings, and what they have saved is theirs. So a rewrite that
// happens to change nothing does not pass for a backup.
func (b *Basis) IsUndo(who Who, writers []lockmgr.Owner) bool {
	script, ok := who.scriptWith(writers)
	return ok && b.remembersAll() && !slices.ContainsFunc(b.Since, func(c Change) bool { return !c.madeBy(script) })
}

// remembersAll reports whether none of the changes since the known version is forgotten: such
// a one may be anybody's.
func (b *Basis) remembersAll() bool { return len(b.Since) > 0 && b.Since[0].Number == b.Version+1 }

// scriptWith is the nearest process that has started both w and another one, which is given
// with its relatives; w itself if that is the other one, or has started it.
func (w Who) scriptWith(other []lockmgr.Owner) (lockmgr.Owner, bool) {
	own := append(w.family(), w.Above...)
	i := slices.IndexFunc(own, func(o lockmgr.Owner) bool { return slices.Contains(other, o) })
	if i < 0 {
		return lockmgr.Owner{}, false
	}
	return own[i], true
}
