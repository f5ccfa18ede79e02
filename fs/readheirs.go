package fs

import (
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// This file hands the claims of a process that has ended to its relatives.

// attend waits for the end of a process.
func (rs *readClaims) attend(fam *family, dead <-chan struct{}, end func() proc.End, stop func()) {
	defer stop()
	select {
	case <-dead:
		rs.passOn(fam, end())
	case <-fam.quit:
	case <-rs.f.done:
	}
}

// passOn gives the claims of a dead process to its relatives, or ends them.
func (rs *readClaims) passOn(fam *family, end proc.End) {
	rs.mu.Lock()
	fam.dead = true
	claims := make([]*readClaim, 0, len(fam.claims))
	for cl := range fam.claims {
		claims = append(claims, cl)
	}
	rs.mu.Unlock()
	for _, cl := range claims {
		var heir lockmgr.Owner
		for i, o := range cl.heirs {
			if !end.Failed() && rs.f.proc.Alive(o) {
				heir, cl.heirs = o, cl.heirs[i+1:]
				break
			}
		}
		rs.pass(cl, heir)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.families[fam.owner] == fam {
		delete(rs.families, fam.owner)
	}
	close(fam.passed)
}

// pass gives one claim to a relative; nobody is the zero Owner.
func (rs *readClaims) pass(cl *readClaim, heir lockmgr.Owner) {
	var to *family
	if heir == (lockmgr.Owner{}) {
		rs.mu.Lock()
	} else {
		to = rs.joinAndLock(heir)
	}
	defer rs.mu.Unlock()
	switch {
	case cl.ended:
		rs.leaveLocked(to, nil)
	case to == nil:
		rs.endLocked(cl, inVain)
	default:
		old := rs.ofLocked(heir, cl.path)
		if from := rs.families[cl.owner]; from != nil {
			delete(from.claims, cl)
		}
		to.claims[cl] = struct{}{}
		cl.owner = heir
		rs.f.table.SetOwner(cl.lock, heir, sinceEver)
		if old != nil {
			rs.replaceLocked(old, cl)
		}
	}
}

// awaitHeirs is for a request that may meet the claim of a process that has just
// died: whose it is now is about to be decided.
func (rs *readClaims) awaitHeirs(d *demand) {
	if rs.n.Load() == 0 {
		return
	}
	for _, p := range d.places {
		for _, cl := range rs.on(rs.f.path(p.dir, p.name)) {
			rs.mu.Lock()
			owner := cl.owner
			fam := rs.families[owner]
			rs.mu.Unlock()
			if fam == nil || owner == d.c.owner || rs.f.proc.Alive(owner) {
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
