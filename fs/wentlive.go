package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// A live file has no check for lost updates, since nobody who opens one is told of
// versions. The caller that waited while a file went live has asked for one that is not:
// the wait ends with the check that would have ended it otherwise.

// askedFor reports of which of the places a caller asks for a file that is not live.
func (lo *losses) askedFor(places []place) (atomic [2]bool) {
	for i, p := range places {
		if i < len(atomic) {
			atomic[i] = lo.rules.settings(lo.nodes.path(p.dir, p.name)).Mode == policy.Atomic
		}
	}
	return atomic
}

// wouldLoseLive is wouldLose where the file st has gone live since the caller asked for
// it. The lock is held with which it waited.
func (lo *losses) wouldLoseLive(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	path := lo.nodes.path(p.dir, p.name)
	set := lo.rules.policy.For(path)
	if !lo.updates.Applies(&set) || st == nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0
	}
	if lostupdate.RefusesStranger(c.Foreign(), &set) {
		return nil, lo.refuseStranger(c, op, path)
	}
	if set.LostUpdate == policy.Merge {
		set.LostUpdate = policy.RefuseLost // what a live file holds changes while it is merged
	}
	who, ok := lo.learnersOf(c, &set)
	if !ok {
		return nil, 0
	}
	set.History = 0 // and nothing of it is kept
	file := fileAt(path, st)
	if number, stamp := lo.rules.knowledge.Current(knowledge.Key(path)); number != 0 {
		file.Stamp = stamp // what is written to it since makes no version
	}
	return lo.lossOf(c, lostupdate.Change{Op: op, File: file, Set: &set, Counts: knowledge.Readers}, who, writers), 0
}

// mayUseLive decides whether an open may change the file st, if that has gone live since
// the caller asked for it. An open for reading and writing reads the file as it is now, if at all.
func (lo *losses) mayUseLive(c *caller, op string, p place, st *unix.Stat_t, o *beginOptions) unix.Errno {
	if o.settings.Mode != policy.Atomic || !o.trunc && !o.blind {
		return 0
	}
	if !lo.rules.wentLive(st) && lo.rules.settings(lo.nodes.path(p.dir, p.name)).Mode != policy.Live {
		return 0
	}
	x, e := lo.wouldLoseLive(c, op, p, st)
	if x == nil {
		return e
	}
	return errnoFor(x.Answer())
}

// wouldLoseAsked is wouldLose for a caller that has asked for the file before now.
func (lo *losses) wouldLoseAsked(c *caller, op string, p place, st *unix.Stat_t, wasAtomic bool, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	if wasAtomic && lo.rules.settings(lo.nodes.path(p.dir, p.name)).Mode == policy.Live {
		return lo.wouldLoseLive(c, op, p, st, writers...)
	}
	return lo.wouldLose(c, op, p, st, writers...)
}

// wouldLose is what the renaming would lose of the file that has one of its names.
func (r *renaming) wouldLose(p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	wasAtomic := r.lb.atomic[0]
	if p.key() == r.to.key() {
		wasAtomic = r.lb.atomic[1]
	}
	return r.losses.wouldLoseAsked(r.c, opRename, p, st, wasAtomic, writers...)
}
