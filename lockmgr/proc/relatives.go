package proc

import (
	"slices"
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/family"
)

// Family is a process with those of its ancestors that share what it knows.
type Family = family.Family

// Family finds the relatives of a process. What was found is believed for a second.
//
// It is asked for every process that opens a file, most of which live for a
// millisecond: what is known of the parent saves the way up.
func (r *Reader) Family(o lockmgr.Owner) Family {
	if o.PID <= 0 {
		return Family{}
	}
	if k := r.families.get(o); k != nil {
		return k.family
	}
	if k := r.adopt(o); k != nil {
		r.families.put(k)
		return k.family
	}
	chain := r.ancestry(o.PID)
	if len(chain) == 0 || chain[0].start != o.Start {
		return Family{}
	}
	for n := range min(len(chain), 2) { // the parent's is for its other children
		r.families.put(&knownFamily{Member: chain[n].member(), family: r.familyOf(chain[n:]), seen: now()})
	}
	return r.familyOf(chain)
}

// pids are those of a process and its ancestors.
func pids(chain []*known) []int32 {
	list := make([]int32, len(chain))
	for i, k := range chain {
		list[i] = k.tid
	}
	return list
}

// members are what a process and its ancestors are to each other.
func members(chain []*known) []family.Member {
	list := make([]family.Member, len(chain))
	for i, k := range chain {
		list[i] = k.member()
	}
	return list
}

// familyOf is the family of the first of a process and its ancestors.
func (r *Reader) familyOf(chain []*known) Family {
	f, end := family.Of(members(chain))
	orphan, starters := r.forks.Orphan(pids(chain))
	switch {
	case orphan >= 0 && orphan < end:
		f.Above = f.Add(r.living(chain[orphan], starters)...)
	case orphan < 0 && end < len(chain) && chain[end].member().IsTop():
		f.Above = f.Add(r.leaders(chain[end-1], chain[end])...)
		f.Above = f.Add(r.before(chain[end-1])...)
	}
	return f
}

// living are those of the starters of an orphan that have not ended, up to a launcher or
// an interactive shell.
func (r *Reader) living(orphan *known, starters []int32) []lockmgr.Owner {
	var list []lockmgr.Owner
	start := orphan.start
	for _, pid := range starters {
		var k *known
		if chain := r.ancestry(pid); len(chain) > 0 {
			k = chain[0]
		} else if k = r.known.get(pid); k == nil {
			continue
		}
		if k.start > start {
			continue // it has the pid of one that has ended
		}
		if k.member().Ends() {
			break
		}
		list, start = append(list, k.leader()), k.start
	}
	return list
}

// leaders are the processes that have most likely started an orphan, where nothing but
// /proc tells: see family.LeadersOf.
func (r *Reader) leaders(orphan, reaper *known) []lockmgr.Owner {
	if orphan.pgrp <= 1 || orphan.pgrp == orphan.tid {
		return nil
	}
	return family.LeadersOf(orphan.leader(), reaper.leader(), members(r.ancestry(orphan.pgrp)))
}

// before are the ancestors that an orphan had when it was last asked for, if it was not
// one then.
func (r *Reader) before(orphan *known) []lockmgr.Owner {
	k := r.families.slot(orphan.leader()).Load()
	if k == nil || k.Owner != orphan.leader() {
		return nil
	}
	return slices.Concat(k.family.Relatives, k.family.Above)
}

// adopt makes a family of what is known of the parent's; nil if that is too little.
func (r *Reader) adopt(o lockmgr.Owner) *knownFamily {
	self, err := r.remembered(o.PID)
	if err != nil || self.start != o.Start {
		return nil
	}
	parent := r.known.get(self.ppid)
	if parent == nil || now()-parent.seen > parentFor || parent.start > self.start {
		return nil
	}
	up := r.families.get(parent.leader())
	if up == nil {
		return nil
	}
	if orphan, _ := r.forks.Orphan([]int32{self.tid, parent.tid}); orphan == 0 {
		return nil
	}
	k := &knownFamily{Member: self.member(), seen: up.seen}
	switch {
	case !up.IsTop():
		k.family = up.family.OfChild(up.Owner, self.kind)
	case self.pgrp != self.tid || r.before(self) != nil:
		return nil // see leaders and before
	default:
		k.family, _ = family.Of([]family.Member{k.Member})
	}
	return k
}

const (
	// familyFor is how long a family is believed: a parent may die, and then who
	// reads has one relative fewer, or may become another program.
	familyFor = time.Second
	// parentFor is how long a pid is believed to be the same process, if a child of
	// it that was just looked at says so, too.
	parentFor = 10 * trustFor
)

// knownFamily is a family that was found. The value is immutable.
type knownFamily struct {
	family.Member // whose it is
	family        Family
	seen          time.Duration
}

// familyCache has one slot for each of so many pids; neighbours do not meet.
type familyCache [1024]atomic.Pointer[knownFamily]

func (c *familyCache) slot(o lockmgr.Owner) *atomic.Pointer[knownFamily] {
	return &c[uint32(o.PID)%uint32(len(c))]
}

func (c *familyCache) put(k *knownFamily) { c.slot(k.Owner).Store(k) }

// get returns what is believed of a process, or nil.
func (c *familyCache) get(o lockmgr.Owner) *knownFamily {
	if k := c.slot(o).Load(); k != nil && k.Owner == o && now()-k.seen < familyFor {
		return k
	}
	return nil
}
