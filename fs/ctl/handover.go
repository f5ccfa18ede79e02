package ctl

import (
	"errors"

	"latchfs/fs/control"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// This file is about whose a conversation is. A process that has closed its last
// descriptor leaves it to a descendant that has inherited one.

// Flush notes that c has closed a descriptor. Where the owner has none left, the
// conversation becomes that of a descendant that has one.
func (cv *Conversation) Flush(c Caller) {
	cv.mu.Lock()
	owner := cv.owner
	cv.mu.Unlock()
	if c.Foreign() || c.Owner() != owner {
		return
	}
	_, exiting := cv.s.Procs.Exit(c.TID())
	if !exiting && cv.mayBeOpenIn(owner.PID) {
		return
	}
	for _, pid := range cv.s.Procs.Descendants(owner.PID) {
		if th, err := cv.s.Procs.Process(pid); err == nil && cv.isOpenIn(pid) {
			cv.handOver(th.Owner)
			return
		}
	}
	if !exiting || len(cv.claims()) == 0 {
		return
	}
	// The children of a process of several threads that was killed may have got another
	// parent by the time its last thread closes its descriptors. What guard starts
	// carries its lock's name.
	for _, o := range cv.s.Procs.All() {
		if o != owner && cv.isOpenIn(o.PID) && cv.isNamedBy(o) {
			cv.handOver(o)
			return
		}
	}
}

// isNamedBy reports whether a process was started with the name of one of the
// conversation's locks in its environment.
func (cv *Conversation) isNamedBy(o lockmgr.Owner) bool {
	id := cv.s.Procs.EnvOf(o, []string{control.SessionEnv})
	if id == "" {
		return false
	}
	for _, cl := range cv.claims() {
		if cl.ID() == id {
			return true
		}
	}
	return false
}

// isOpenIn reports whether a process has this conversation open, or another one.
func (cv *Conversation) isOpenIn(pid int32) bool {
	r, w, err := cv.s.Procs.Opens(pid, cv.file)
	return err == nil && r+w > 0
}

// mayBeOpenIn is isOpenIn, and true of a process that cannot be seen for the moment.
func (cv *Conversation) mayBeOpenIn(pid int32) bool {
	r, w, err := cv.s.Procs.Opens(pid, cv.file)
	return errors.Is(err, proc.ErrBusy) || err == nil && r+w > 0
}

// handOver makes another process the owner.
func (cv *Conversation) handOver(to lockmgr.Owner) {
	s := cv.s
	cv.mu.Lock()
	defer cv.mu.Unlock()
	cv.owner, cv.lineage = to, s.Procs.Lineage(to.PID)
	for _, cl := range cv.locks {
		if t := cl.Txn(); t != nil {
			go t.Rollback("the process that would have decided has ended")
		}
		l := s.Claims.LockOf(cl)
		s.Table.SetOwner(l, to, l.Request().Since) // its heirs are what they were
	}
	for l := range cv.waits {
		s.Table.SetOwner(l, to, l.Request().Since)
	}
}
