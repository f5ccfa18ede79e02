package proc

import (
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/family"
	"latchfs/lockmgr/proc/internal/procfs"
	"latchfs/lockmgr/proc/internal/signals"
)

// known is what is known of a thread. The value is immutable.
type known struct {
	tid         int32
	start       uint64
	ppid        int32
	pgrp        int32
	comm        procfs.Name
	tgid        int32  // 0: not looked up yet
	leaderStart uint64 // with tgid
	kind        family.Kind
	seen        time.Duration
	looks       int // how often it was looked at
}

// fresh reports whether it may be believed without another look.
func (k *known) fresh() bool { return now()-k.seen < trustFor }

// thread is the answer that Thread gives.
func (k *known) thread() Thread {
	t := Thread{TID: k.tid, TGID: k.tgid, Start: k.start, PPID: k.ppid}
	t.Owner.PID, t.Owner.Start = k.tgid, k.leaderStart
	return t
}

// leader is the owner that a process is, of what is known of its first thread.
func (k *known) leader() lockmgr.Owner { return lockmgr.Owner{PID: k.tid, Start: k.start} }

// member is what the process is to those below it.
func (k *known) member() family.Member { return family.Member{Owner: k.leader(), Kind: k.kind} }

// cache is a cache of fixed size. Each id belongs to a small set of slots, from
// which the entry seen longest ago gives way. Ids are given out in rising order,
// so those in use at a time spread over all sets.
type cache struct {
	sets [512]cacheSet
}

type cacheSet [4]atomic.Pointer[known]

func (c *cache) set(tid int32) *cacheSet {
	return &c.sets[uint32(tid)%uint32(len(c.sets))]
}

// put remembers what is known of a thread in place of what was known before.
func (c *cache) put(k *known) {
	set := c.set(k.tid)
	slot, oldest := &set[0], k.seen
	for i := range set {
		held := set[i].Load()
		if held == nil || held.tid == k.tid {
			slot = &set[i]
			break
		}
		if held.seen < oldest {
			slot, oldest = &set[i], held.seen
		}
	}
	slot.Store(k)
}

// get returns what is known of a thread, fresh or not, or nil.
func (c *cache) get(tid int32) *known {
	set := c.set(tid)
	for i := range set {
		if k := set[i].Load(); k != nil && k.tid == tid {
			return k
		}
	}
	return nil
}

// note remembers a stat just read. What was known of the same thread before and
// cannot change stays known.
func (c *cache) note(tid int32, st *procfs.Stat) *known {
	k := &known{
		tid: tid, start: st.Start, ppid: st.PPID, pgrp: st.PGrp, comm: st.Comm, seen: now(),
		kind: family.KindOf(st.Comm.Bytes(), st.TTY != 0, signals.Set(st.SigIgnore)),
	}
	if old := c.get(tid); old != nil && old.start == st.Start {
		k.tgid, k.leaderStart, k.looks = old.tgid, old.leaderStart, old.looks
	}
	k.looks++
	c.put(k)
	return k
}

// belongs remembers which process a thread belongs to.
func (c *cache) belongs(k *known, tgid int32, leaderStart uint64) *known {
	whole := *k
	whole.tgid, whole.leaderStart = tgid, leaderStart
	c.put(&whole)
	return &whole
}

// epoch is where the times of cache entries count from, so that they compare
// on the monotonic clock.
var epoch = time.Now()

// now is the time since epoch.
func now() time.Duration { return time.Since(epoch) }
