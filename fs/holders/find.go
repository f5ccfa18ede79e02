package holders

import "latchfs/lockmgr"

// Finding is what a look at a holder set has shown.
type Finding struct {
	Held bool // somebody can write the file, or may be able to
	// Next is the process that holds the file where its owner does not: the owner has closed
	// its descriptor, or dies. It is zero where the owner holds it, or where it is not known
	// who does.
	Next lockmgr.Owner
	// Dying are those who are being killed, where nobody holds the file: whether they had it
	// open is not known yet.
	Dying []lockmgr.Owner
}

// Find finds out who of the set holds the file, of which all descriptors that the kernel
// has told of are closed. owner is the process whose file it is; by is whose close is looked
// at, nil if it is none's.
func (s *Set) Find(owner lockmgr.Owner, by *Closer) Finding {
	s.unseen.Store(false)
	var dying []lockmgr.Owner
	exits := by != nil && by.Exiting
	gone := exits && by.Owner == owner
	if !gone {
		if owner.PID != 0 && !s.charge(owner.PID) {
			return Finding{Held: true}
		}
		switch s.lookAtOwner(owner, by) {
		case holds:
			return Finding{Held: true}
		case hidden:
			return s.inDoubt(lockmgr.Owner{})
		case free:
			dying = s.addDying(dying, owner.PID, by)
		}
	}
	var doubt int32
	for _, pid := range s.members(by) {
		if pid == owner.PID || exits && pid == by.Owner.PID {
			continue
		}
		is := holds
		if !by.sawHolding(pid) {
			if !s.charge(pid) {
				return Finding{Held: true} // RELEASE will tell
			}
			is = s.look(pid)
		}
		switch is {
		case holds:
			th, err := s.c.Procs.Process(pid)
			if err != nil {
				return Finding{Held: true}
			}
			return Finding{Held: true, Next: th.Owner}
		case hidden:
			doubt = pid
		case free:
			dying = s.addDying(dying, pid, by)
		}
	}
	if doubt == 0 {
		return Finding{Dying: dying}
	}
	var next lockmgr.Owner
	if gone || !s.c.Procs.Alive(owner) {
		if th, err := s.c.Procs.Process(doubt); err == nil {
			next = th.Owner
		}
	}
	return s.inDoubt(next)
}

// inDoubt is that somebody may hold the file whom the daemon cannot see.
func (s *Set) inDoubt(next lockmgr.Owner) Finding {
	s.unseen.Store(true)
	return Finding{Held: true, Next: next}
}

// IsHeldAfter reports whether somebody of the set holds the file after a close. It is for a
// file of which nobody is the owner any more, and of which no death decides.
func (s *Set) IsHeldAfter(by *Closer) bool {
	for _, pid := range s.members(by) {
		if by.Exiting && pid == by.Owner.PID {
			continue
		}
		if by.sawHolding(pid) || !s.charge(pid) || s.look(pid) != free {
			return true
		}
	}
	return false
}

// IsMapped reports whether somebody of the set has the file mapped to write it.
func (s *Set) IsMapped() bool {
	if !s.mappable {
		return false
	}
	file, backing := s.c.File.AsOpen(), s.c.File.AsMapped()
	for _, pid := range s.members(nil) {
		if s.maps(pid, file, backing) {
			return true
		}
	}
	return false
}

// Anybody looks through all processes for one that is seen to hold the file.
func (s *Set) Anybody() (o lockmgr.Owner, ok bool) {
	for _, o := range s.c.Procs.All() {
		if s.charge(o.PID) && s.look(o.PID) == holds {
			return o, true
		}
	}
	return lockmgr.Owner{}, false
}

// IsUnseen reports whether the last Find has taken the file for held because nobody can tell who
// holds it: RELEASE is due, unless a descriptor is left.
func (s *Set) IsUnseen() bool { return s.unseen.Load() }

// StopAwaiting has IsUnseen say no until the next Find: RELEASE was waited for, and has not come.
func (s *Set) StopAwaiting() { s.unseen.Store(false) }
