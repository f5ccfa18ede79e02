package lockmgr

// Inbox tells a caller with many waits which of them are over, so that it needs
// no goroutine for each. The zero Inbox is not ready for use; see NewInbox.
type Inbox struct {
	ready chan struct{}
	first *Lock // guarded by Table.mu; linked by nextIn
	last  *Lock
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{ready: make(chan struct{}, 1)} }

// Ready returns a channel that yields a value when there may be something to
// collect.
func (in *Inbox) Ready() <-chan struct{} { return in.ready }

// Collect returns the locks of an inbox whose wait is over since it was last
// asked, in the order in which it ended. A lock that was granted at once is not
// among them.
func (t *Table) Collect(in *Inbox) []*Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*Lock
	for l := in.first; l != nil; {
		next := l.nextIn
		l.nextIn = nil
		out = append(out, l)
		l = next
	}
	in.first, in.last = nil, nil
	return out
}

// put notes that the wait of l is over.
func (in *Inbox) put(l *Lock) {
	if in.last == nil {
		in.first = l
	} else {
		in.last.nextIn = l
	}
	in.last = l
	select {
	case in.ready <- struct{}{}:
	default:
	}
}
