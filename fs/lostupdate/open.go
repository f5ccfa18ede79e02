package lostupdate

import "latchfs/lockmgr"

// Open is an open for writing, or for reading and writing, by a process that knows an older
// version than the one that it opens, or for which such a process decides. Such an open does
// not tell whether the process reads first, so it teaches nobody anything, and the first
// operation decides.
//
// What guards an Open is the caller's. Once a method has said that the process is current
// the Open is done with.
type Open struct {
	Loss  *Loss           // what a change before any read would lose
	Chain []lockmgr.Owner // whose knowledge decides
	// refused: a change was. Programs that buffer write the same bytes again later,
	// whatever they have read meanwhile, so that nothing is accepted any more.
	refused bool
}

// IsRefused reports whether a change through the descriptor was refused.
func (o *Open) IsRefused() bool { return o.refused }

// Change decides about a change through the descriptor: if it happens, the process is
// current. now is the change by what is known now; nil if nobody can tell.
func (o *Open) Change(now *Change) (happens bool) {
	if o.refused {
		return false
	}
	if o.IsStale(now) && !o.Loss.Answer() {
		o.refused = true
		return false
	}
	return true
}

// IsStale finds out whether the process has not read the file through another descriptor
// meanwhile.
func (o *Open) IsStale(now *Change) bool { return now == nil || o.Loss.Renew(now) }
