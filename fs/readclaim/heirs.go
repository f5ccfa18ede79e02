package readclaim

import (
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// This file hands the claims of a process that has ended to its relatives.

// attend waits for the end of a process.
func (cs *Claims) attend(fam *family, dead <-chan struct{}, end func() proc.End, stop func()) {
	defer stop()
	select {
	case <-dead:
		cs.passOn(fam, end())
	case <-fam.quit:
	case <-cs.Done:
	}
}

// passOn gives the claims of a dead process to its relatives, or ends them.
func (cs *Claims) passOn(fam *family, end proc.End) {
	cs.mu.Lock()
	fam.dead = true
	claims := make([]*Claim, 0, len(fam.claims))
	for cl := range fam.claims {
		claims = append(claims, cl)
	}
	cs.mu.Unlock()
	for _, cl := range claims {
		var heir lockmgr.Owner
		for i, o := range cl.heirs {
			if !end.Failed() && cs.Procs.Alive(o) {
				heir, cl.heirs = o, cl.heirs[i+1:]
				break
			}
		}
		cs.pass(cl, heir)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.families[fam.owner] == fam {
		delete(cs.families, fam.owner)
	}
	close(fam.passed)
}

// pass gives one claim to a relative; nobody is the zero Owner.
func (cs *Claims) pass(cl *Claim, heir lockmgr.Owner) {
	var to *family
	if heir == (lockmgr.Owner{}) {
		cs.mu.Lock()
	} else {
		to = cs.joinAndLock(heir)
	}
	defer cs.mu.Unlock()
	switch {
	case cl.ended:
		cs.leaveLocked(to, nil)
	case to == nil:
		cs.endLocked(cl, inVain)
	default:
		old := cs.ofLocked(heir, cl.path)
		if from := cs.families[cl.owner]; from != nil {
			delete(from.claims, cl)
		}
		to.claims[cl] = struct{}{}
		cl.owner = heir
		cs.Table.SetOwner(cl.lock, heir, SinceEver)
		if old != nil {
			cs.replaceLocked(old, cl)
		}
	}
}

// AwaitHeirs is for a request of a process for paths that may meet the claim of a process
// which has just died: whose it is now is about to be decided.
func (cs *Claims) AwaitHeirs(o lockmgr.Owner, paths []string) {
	for _, path := range paths {
		for _, cl := range cs.on(path) {
			cs.mu.Lock()
			owner := cl.owner
			fam := cs.families[owner]
			cs.mu.Unlock()
			if fam == nil || owner == o || cs.Procs.Alive(owner) {
				continue
			}
			select {
			case <-fam.passed:
			case <-fam.quit:
			case <-time.After(passGrace):
			}
		}
	}
}
