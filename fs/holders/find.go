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
	var dying []lockmgr.Owner
	exits := by != nil && by.Exiting
	s.unseen.Store(false)
	if !(exits && by.Owner == owner) {
		if owner.PID == 0 {
			s.unseen.Store(true)
			return Finding{Held: true}
		}
		if !s.charge(owner.PID) || s.lookAtOwner(owner, by) {
			return Finding{Held: true}
		}
		dying = s.addDying(dying, owner.PID, by)
	}
	for _, pid := range s.members(by) {
		if pid == owner.PID || exits && pid == by.Owner.PID {
			continue
		}
		holds := by.sawHolding(pid)
		if !holds {
			if !s.charge(pid) {
				return Finding{Held: true} // RELEASE will tell
			}
			holds = s.look(pid)
		}
		if !holds {
			dying = s.addDying(dying, pid, by)
			continue
		}
		th, err := s.c.Procs.Process(pid)
		if err != nil {
			return Finding{Held: true}
		}
		return Finding{Held: true, Next: th.Owner}
	}
	return Finding{Dying: dying}
}

// IsHeldAfter reports whether somebody of the set holds the file after a close. It is for a
// file of which nobody is the owner any more, and of which no death decides.
func (s *Set) IsHeldAfter(by *Closer) bool {
	for _, pid := range s.members(by) {
		if by.Exiting && pid == by.Owner.PID {
			continue
		}
		if by.sawHolding(pid) || !s.charge(pid) || s.look(pid) {
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
	defer s.unseen.Store(false)
	for _, o := range s.c.Procs.All() {
		s.unseen.Store(false)
		if s.charge(o.PID) && s.look(o.PID) && !s.unseen.Load() {
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
