package lostupdate

// Writing is how the writers of one session came to replace a file, as far as that says on which
// version they base what they write. They tell by what they do:
//
//	an open that truncates               decides at once; see Judge.Loss
//	reading                              they know the file: nothing is unread any more
//	writing alone, or before any read    unread: what is written decides, at the close
//	appending                            adds: it replaces nothing, until it cuts
//
// The change of a session that may lose something is refused, obeyed, or merged at its end. It
// has no mutex: whoever calls it holds the session's.
type Writing struct {
	unread bool   // it replaces the file, and its writer has neither read nor cut that
	adds   bool   // all its opens append
	merge  *Merge // its writer does not know the file; nil: nothing to merge
	lost   *Loss  // for which its commit is refused; nil: it is not
}

// NewWriting is a session that an open begins: unread says that the open does not truncate, and is
// not one to append without reading; adds that it has O_APPEND. Of a new file both are false.
func NewWriting(unread, adds bool) Writing { return Writing{unread: unread, adds: adds} }

// Opened notes one more open that joins the session, or the one that began it: appends says
// whether it appends, and tellsLater whether only what it does will tell that it replaces
// something, for it writes alone or is stale.
func (w *Writing) Opened(appends, tellsLater bool) {
	w.adds = w.adds && appends
	w.unread = w.unread && tellsLater
}

// Adds reports whether the session does no more than append.
func (w *Writing) Adds() bool { return w.adds }

// IsUnread reports whether the session replaces what its writer has not read.
func (w *Writing) IsUnread() bool { return w.unread && !w.adds }

// Cut notes a cut by its name, or through a descriptor that is not stale: a process that cuts
// does not only add, and what it knows of the file decides.
func (w *Writing) Cut() {
	if w.adds {
		w.adds, w.unread = false, true
	}
}

// CutStale notes a cut through a descriptor that is stale, of which the change decides that
// follows.
func (w *Writing) CutStale() { w.adds = false }

// Know notes that the writer knows the file after all.
func (w *Writing) Know() { w.unread = false }

// Publish notes that what was written becomes the file before the close; changed says whether
// that is anything. Nothing is replaced otherwise.
func (w *Writing) Publish(changed bool) { w.unread = w.unread && changed }

// GoOn lets the session go on from what its writer has made, which was published.
func (w *Writing) GoOn() { w.merge, w.unread = nil, false }

// MergeWith has the session's change merged at its end; nil: it is not.
func (w *Writing) MergeWith(m *Merge) { w.merge = m }

// Merge is what the session's change is to be merged with, or was; nil: nothing.
func (w *Writing) Merge() *Merge { return w.merge }

// Merges reports whether the session's change is to be merged, or was.
func (w *Writing) Merges() bool { return w.merge != nil }

// Joined is what the session's change was merged with; nil: nothing so far.
func (w *Writing) Joined() *Merge {
	if w.merge == nil || !w.merge.IsJoined() {
		return nil
	}
	return w.merge
}

// Refuse notes for what loss the commit is refused.
func (w *Writing) Refuse(x *Loss) { w.lost = x }

// Refused is that loss; nil: there is none.
func (w *Writing) Refused() *Loss { return w.lost }
