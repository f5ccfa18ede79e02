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
	if len(b.Since) == 0 || b.Since[0].Number != b.Version+1 {
		return false // the earliest are forgotten, and may be anybody's
	}
	own := lineage[:1]
	if script >= 0 {
		own = lineage[:slices.Index(lineage, writers[script])+1]
	}
	return !slices.ContainsFunc(b.Since, func(c Change) bool {
		return !c.madeBy(b.By) && (len(c.owners) == 0 || !slices.Contains(own, c.owners[0]))
	})
}
