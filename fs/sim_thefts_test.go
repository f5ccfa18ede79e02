package fs

import (
	"errors"
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// Thefts: somebody takes the lock of a file away from a program that writes it, and is active,
// as root does with `latchfs steal --force`. The victim is told, at an fsync or at its close, and
// what it has written is not the file's; nobody else loses anything.

// drawThefts adds commands that steal.
func (s *simScript) drawThefts(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 14))
	if r.IntN(5) > 0 {
		return
	}
	for range 1 + r.IntN(4) {
		p := &s.programs[r.IntN(len(s.programs))]
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), "steal "+names[r.IntN(len(names))])
	}
}

// steal waits a while until somebody writes the file, and takes the lock of it away.
func (p *simProc) steal(path string) {
	p.enter(unix.SYS_WRITE, "steal "+path)
	n := p.rob(path)
	for range 10 {
		if n > 0 || p.isKilled() {
			break
		}
		p.w.park(p.String() + " is about to steal " + path)
		n = p.rob(path)
	}
	p.w.logf("%s steals %s from %d", p, path, n)
	if n > 0 {
		p.w.model.count("theft")
	}
	p.leave()
}

// rob takes the locks of those away who write a file. It returns how many did.
func (p *simProc) rob(path string) (n int) {
	f := p.kernel.d.fs
	f.locks.steal(f.callers.openerOf(&Request{Node: rootID, TID: uint32(p.pid), UID: p.uid}), func() {
		for _, h := range f.rules.table.Holders([]lockmgr.Key{lockmgr.Key(path)}, nil) {
			lb, ok := h.Label.(*label)
			if !ok || lb.session.Load() == nil || lb.session.Load().txn.Load() != nil {
				continue // a transaction that has lost a file is refused as a whole
			}
			if f.locks.revoke(&h) == nil {
				n++
				p.w.procs.noteRobbed(h.Owner)
			}
		}
	})
	return n
}

// noteRobbed notes that a lock was stolen from a process.
func (ps *simProcs) noteRobbed(o lockmgr.Owner) {
	if p := ps.get(o.PID); p != nil {
		at := ps.w.now()
		ps.mu.Lock()
		defer ps.mu.Unlock()
		p.robbed = at
	}
}

// refusedAs is the answer to a system call on a path as the model knows it: that of a victim is a
// refusal. began is when the call did.
func (p *simProc) refusedAs(e unix.Errno, began int64) unix.Errno {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	if e == unix.ESTALE && p.robbed > began {
		return unix.EBUSY
	}
	return e
}

// isRobbed reports whether the lock was stolen with which the file is written.
func (f *simFile) isRobbed() bool {
	h := f.k.d.fs.handles.handleOf(f.fh)
	return h != nil && h.kind == shadowHandle && errors.Is(h.sess.heldLock().Err(), lockmgr.ErrStolen)
}

// refusedAs is the answer to a close as the model knows it: that of a victim is a refusal.
func (f *simFile) refusedAs(e unix.Errno) unix.Errno {
	if e == unix.ESTALE && f.isRobbed() {
		return unix.EBUSY
	}
	return e
}
