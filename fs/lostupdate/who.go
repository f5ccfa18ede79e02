package lostupdate

import (
	"slices"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Stranger stands for all processes that cannot be told apart, where the policy takes
// them together.
var Stranger = lockmgr.Owner{PID: -1}

// Learners is a process with those who learn what it learns; false of one that learns
// nothing, and is nobody: an interactive shell, or a stranger that the policy ignores. The
// pid of a stranger is 0.
func (j *Judge) Learners(o lockmgr.Owner, set *policy.Settings) (knowledge.Who, bool) {
	switch {
	case o.PID != 0:
		return j.LearnersOf(o)
	case set.Strangers == policy.OneStranger:
		return knowledge.Who{Self: Stranger}, true
	}
	return knowledge.Who{}, false
}

// LearnersOf is Learners of a process that can be told from others.
func (j *Judge) LearnersOf(o lockmgr.Owner) (knowledge.Who, bool) {
	if o.PID <= 0 {
		return knowledge.Who{}, false
	}
	family := j.Procs.Family(o)
	if family.Interactive {
		return knowledge.Who{}, false
	}
	who := knowledge.Who{Self: o, Relatives: family.Relatives, Above: family.Above}
	if len(who.Relatives) == 0 {
		who.Shell = family.Shell
	}
	return who, true
}

// RefusesStranger reports whether a stranger is refused every change of a file, for nobody
// can tell what it has read.
func RefusesStranger(stranger bool, set *policy.Settings) bool {
	return stranger && set.Strangers == policy.RefuseStrangers
}

// AsksRemover reports whether a removal by a process is asked what it loses. A removal is
// deliberate, and the history keeps the file: that is so under the policy "strict", and of a
// process that was refused a change of the file a moment ago, which is about to make the same
// change in another way (cp -f, vim).
func (j *Judge) AsksRemover(path string, o lockmgr.Owner, set *policy.Settings) bool {
	if set.LostUpdate == policy.StrictLost || RefusesStranger(o.PID == 0, set) {
		return true
	}
	who, ok := j.Learners(o, set)
	return ok && j.Known.Barred(time.Now(), knowledge.Key(path), who.Self)
}

// Chain lists whose knowledge counts, the nearest first. What a file was made from its
// writers know better than the process that renames it.
func Chain(who knowledge.Who, writers []lockmgr.Owner) []lockmgr.Owner {
	chain := make([]lockmgr.Owner, 0, 8)
	add := func(list ...lockmgr.Owner) {
		for _, o := range list {
			if o != (lockmgr.Owner{}) && !slices.Contains(chain, o) {
				chain = append(chain, o)
			}
		}
	}
	if len(writers) > 0 {
		add(writers[0])
	}
	add(who.Self)
	if len(writers) > 0 {
		add(writers[1:]...)
	}
	add(who.Relatives...)
	add(who.Shell) // which knows nothing, but see knowledge.Basis.IsUndo
	return chain
}
