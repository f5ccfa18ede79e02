package holders

import "latchfs/lockmgr"

// A look after a close may be put off where it decides nothing: it is pending then.

// CanFindOnly reports whether a look after a close could find nobody but the owner, who
// closes and may have another descriptor. The children that the owner has left behind are
// known by now. It is not for what may be mapped, and not for a process that is not known to
// be outside execve.
func (s *Set) CanFindOnly(owner lockmgr.Owner, by *Closer) bool {
	alone := by.Owner == owner && len(s.seen) == 1 && s.seen[by.Owner.PID].Owner == by.Owner && len(by.children) == 0
	return alone && !by.Exiting && !by.Killed && by.Program != "" && !s.mappable
}

// PutOffLook puts off the look at a process that has closed a descriptor.
func (s *Set) PutOffLook(o lockmgr.Owner) { s.unlooked.Store(&o) }

// PendingLook is the process at which a look was put off, if there is one.
func (s *Set) PendingLook() (o lockmgr.Owner, ok bool) {
	if p := s.unlooked.Load(); p != nil {
		return *p, true
	}
	return lockmgr.Owner{}, false
}

// EndPendingLook ends what PutOffLook has begun, for the look was made or is not needed;
// it reports whether one was pending.
func (s *Set) EndPendingLook() bool { return s.unlooked.Swap(nil) != nil }

// HasLeft reports whether a look shows a process to have no descriptor to write the file. It
// is for a file that nobody else has used, and that cannot be mapped.
func (s *Set) HasLeft(o lockmgr.Owner) bool {
	if !s.charge(o.PID) {
		return false
	}
	w, _, err := s.c.Procs.Opens(o.PID, s.c.File.AsOpen())
	return err == nil && w == 0
}
