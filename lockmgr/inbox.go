package lockmgr

// Inbox tells a caller with many waits which of them are over, so that it needs
// no goroutine for each. The zero Inbox is not ready for use; see NewInbox.
type Inbox struct {
	ready chan struct{}
	over  []*Lock // guarded by Table.mu
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
	over := in.over
	in.over = nil
	return over
}

// put notes that the wait of l is over.
func (in *Inbox) put(l *Lock) {
	in.over = append(in.over, l)
	select {
	case in.ready <- struct{}{}:
	default:
	}
}
