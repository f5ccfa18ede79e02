package ctl

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
)

// Claim is a lock that was taken through the control file. It belongs to the
// conversation in which it was taken, or to a process.
type Claim struct {
	Op    string // what it is for
	Name  string // of a lock that stands for no file
	Actor string // who it is for, as the requester said
	By    Caller // who asked, or opened the conversation

	// Program is that of the holder, if it is not By's, as an event has named it last; nil: none has.
	Program atomic.Pointer[string]

	of    *Claims
	no    uint64
	path  string                         // when it was asked for
	moved atomic.Pointer[string]         // the path since a directory above was renamed; nil: as it was
	whole atomic.Pointer[lockkey.Target] // nil: path or Name, as of most

	cv     *Conversation // nil: it belongs to keeper
	keeper *keeper
	lock   *lockmgr.Lock // guarded by Claims.mu
	since  time.Time     // when it was granted
	// joined is the owner of an earlier lock that the requester has joined: so have
	// those whose environment names this one.
	joined *lockmgr.Ancestor
	staged bool                // it is to be a transaction
	cost   int64               // charged to By; see account
	txn    atomic.Pointer[Txn] // the transaction that it is
	heirs  []lockmgr.Owner     // who has joined this one; guarded by Claims.mu
}

// claimMark tells the ids of claims from those of sessions.
const claimMark = "-c"

// ID is by what the claim is known to programs.
func (cl *Claim) ID() string { return cl.of.epoch + claimMark + strconv.FormatUint(cl.no, 10) }

// Where is the path by which the claim is shown now: that of the first thing that it is
// on, "" if that stands for no file.
func (cl *Claim) Where() string {
	if at := cl.moved.Load(); at != nil {
		return *at
	}
	return cl.path
}

// heldFile is where .locks shows the claim.
func (cl *Claim) heldFile() string {
	if cl.Name != "" {
		return "names/" + cl.Name + ".lock"
	}
	return "held/" + cl.Where() + ".lock"
}

// Target is what the claim is on: a directory above may get another name at any time at
// which Engine.HoldPaths is not in force.
func (cl *Claim) Target() lockkey.Target {
	switch {
	case cl.whole.Load() != nil:
		return *cl.whole.Load()
	case cl.Name != "":
		return lockkey.Target{Names: []string{cl.Name}}
	}
	return lockkey.Target{Paths: []string{cl.path}}
}

// setTarget says what the claim is on; path and Name are set already.
func (cl *Claim) setTarget(t lockkey.Target) {
	one := len(t.Paths) == 1 && t.Paths[0] == cl.path || len(t.Names) == 1 && t.Names[0] == cl.Name
	if t.Len() == 1 && one {
		cl.whole.Store(nil)
	} else {
		cl.whole.Store(&t)
	}
}

// follow gives the claim the paths that moved makes of those that it is on. It reports
// whether any is another one.
func (cl *Claim) follow(moved func(path string) string) bool {
	was := cl.Target()
	t := lockkey.Target{Paths: movedAll(was.Paths, moved), Trees: movedAll(was.Trees, moved), Names: was.Names}
	if slices.Equal(t.Paths, was.Paths) && slices.Equal(t.Trees, was.Trees) {
		return false
	}
	if at := cl.Where(); moved(at) != at {
		at = moved(at)
		cl.moved.Store(&at)
	}
	cl.setTarget(t)
	return true
}

// movedAll maps a list of paths; the list stays as it is if none changes.
func movedAll(paths []string, moved func(path string) string) []string {
	if !slices.ContainsFunc(paths, func(p string) bool { return moved(p) != p }) {
		return paths
	}
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = moved(p)
	}
	return lockkey.Set(out)
}

// fence is the stolen lock h of the claim, on what the claim is on now.
func (cl *Claim) fence(h *lockmgr.Holder) *lockmgr.Holder {
	t := cl.Target()
	moved := *h
	moved.Keys = slices.DeleteFunc(slices.Clone(h.Keys), lockkey.IsPath)
	moved.Trees = nil
	for _, p := range t.Paths {
		moved.Keys = append(moved.Keys, cl.of.engine.NameKeys(p)...)
	}
	for _, p := range t.Trees {
		moved.Trees = append(moved.Trees, lockmgr.Key(p))
	}
	moved.Keys = append(moved.Keys, moved.Trees...)
	return &moved
}

// Txn is the transaction that the claim is, nil if it is none.
func (cl *Claim) Txn() Txn {
	if t := cl.txn.Load(); t != nil {
		return *t
	}
	return nil
}

// SetTxn makes the claim a transaction.
func (cl *Claim) SetTxn(t Txn) { cl.txn.Store(&t) }

// Joined is the owner of an earlier lock that the requester had joined, nil if it had
// not: whoever joins this claim has joined that, too.
func (cl *Claim) Joined() *lockmgr.Ancestor { return cl.joined }

// LastUse is when its conversation was last used, zero if it has none.
func (cl *Claim) LastUse() time.Time {
	if cl.cv == nil {
		return time.Time{}
	}
	return time.Unix(0, cl.cv.used.Load())
}

// claimCost is what a claim takes in memory, beside what it is on.
const claimCost = 1 << 10

// costOf is what a claim on a target keeps in memory. A name is in the request, in the
// lock table, and in what shows it.
func costOf(t *lockkey.Target, cl *Claim) int64 {
	n := claimCost + len(cl.Op) + len(cl.Actor)
	for _, list := range [][]string{t.Paths, t.Trees, t.Names} {
		for _, p := range list {
			n += 4*len(p) + claimCost/2
		}
	}
	return int64(n)
}

// noOf is the number in a claim's id.
func noOf(epoch, id string) (uint64, bool) {
	no, ok := strings.CutPrefix(id, epoch+claimMark)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(no, 10, 64)
	return n, err == nil
}
