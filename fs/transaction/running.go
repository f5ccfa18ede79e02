package transaction

import (
	"slices"
	"sync"
	"sync/atomic"

	"latchfs/lockmgr"
)

// Process is a process that may be a member of a transaction.
type Process interface {
	// DescendsFrom reports whether the process is o, or descends from a child of o that was
	// born after since.
	DescendsFrom(o lockmgr.Owner, since lockmgr.Birth) bool
	// TxnLabel is the label of a transaction that the environment of the process names, ""
	// if it names none.
	TxnLabel() string
	UID() uint32
}

// Running are the transactions of a mount whose members have not been told to be ordinary
// processes again. Its zero value has none.
type Running struct {
	n   atomic.Int32
	mu  sync.Mutex // guards all
	all []*Txn
}

// Any reports whether there are any. It costs nothing.
func (r *Running) Any() bool { return r.n.Load() > 0 }

// Enter enters a transaction that has begun.
func (r *Running) Enter(t *Txn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, t)
	r.n.Add(1)
}

// Forget lets the members of a transaction be ordinary processes again.
func (r *Running) Forget(t *Txn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.all, t); i >= 0 {
		r.all = slices.Delete(r.all, i, i+1)
		r.n.Add(-1)
	}
}

// All are the transactions in the order in which they began.
func (r *Running) All() []*Txn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Of is the transaction that a process is part of, nil if there is none: the one that began
// last of those of its ancestors; or the one that its environment names, if that belongs to
// its user, whoever its ancestors are by now: guard may have been killed.
func (r *Running) Of(p Process) *Txn {
	all := r.All()
	for _, t := range slices.Backward(all) {
		if p.DescendsFrom(t.c.Owner, t.c.Since) {
			return t
		}
	}
	label := p.TxnLabel()
	if label == "" {
		return nil
	}
	i := slices.IndexFunc(all, func(t *Txn) bool { return t.c.Label == label && t.c.UID == p.UID() })
	if i < 0 {
		return nil
	}
	return all[i]
}
