package suid

import "golang.org/x/sys/unix"

// Writing is what the shadow of a session does not tell of the setuid and setgid bits of its
// file: with passthrough each write takes them off the shadow, whoever wrote.
type Writing struct {
	keeps bool // its writer may keep the bits (CAP_FSETID)
	gid   uint32
	// The writer is in the group of the setgid file that is replaced.
	inGroup bool
	group   uint32

	kept uint32 // the bits that the file has, unless somebody without CAP_FSETID has written it
	set  bool   // the session has set the mode: a write since then has taken off the shadow what it takes
}

// New is the beginning of a session of a writer with the group gid.
func New(gid uint32) Writing { return Writing{gid: gid} }

// BeginOn notes the group of the file that is replaced, if that has the setgid bit; in is the
// writer's membership, and asked only then.
func (w *Writing) BeginOn(st *unix.Stat_t, in Membership) {
	if st.Mode&unix.S_ISGID != 0 {
		w.group, w.inGroup = st.Gid, in(st.Gid)
	}
}

// Keeps says whether the writer may keep the bits.
func (w *Writing) Keeps(keeps bool) { w.keeps = keeps }

// Has notes the mode of the file that is replaced, or of the new file.
func (w *Writing) Has(mode uint32) { w.kept = mode & Bits }

// Left are the bits that the file would have had still after plain writes: those of the shadow
// are gone if it was written.
func (w *Writing) Left() uint32 {
	if !w.keeps {
		return 0
	}
	return w.kept
}

// IsIn is the Membership of the writer, as far as the group of the file is concerned.
func (w *Writing) IsIn(gid uint32) bool { return gid == w.gid || w.inGroup && gid == w.group }

// Loses reports whether a write by the writer takes bits off the file st.
func (w *Writing) Loses(st *unix.Stat_t) bool {
	return !w.keeps && AfterWrite(st.Mode, st.Gid, w.IsIn) != st.Mode
}

// Killed notes a write by an ordinary user: Kill was done to the shadow, or is about to be.
func (w *Writing) Killed() { w.kept = 0 }

// Cut notes that the writer has cut the shadow, by an open.
func (w *Writing) Cut() { w.set = w.set && w.keeps }

// CutByOrdinary notes that the shadow was cut as by an ordinary user, whatever the writer is.
func (w *Writing) CutByOrdinary() { w.keeps, w.set, w.kept = false, false, 0 }

// SetMode notes that the shadow was given a mode, by a process that may keep the bits or not:
// mayKeep is asked if there are any.
func (w *Writing) SetMode(mode uint32, mayKeep func() bool) {
	w.kept, w.set = mode&Bits, true
	w.keeps = w.keeps && (w.kept == 0 || mayKeep())
}

// SetOwner notes that the shadow was given an owner or a group, and is st now. chown(2) does
// the same for root as for others.
func (w *Writing) SetOwner(st *unix.Stat_t) {
	all := func(uint32) bool { return true }
	w.kept = AfterWrite(st.Mode|w.kept, st.Gid, all) & Bits
}

// Fix gives the shadow, which is open as fd, the bits and capabilities that it would have after
// plain writes: a writer without CAP_FSETID loses them, one with it keeps them. isNew says that
// nothing is replaced, and isClean whether the content is what it was.
func (w *Writing) Fix(fd int, isNew bool, isClean func() bool) error {
	switch {
	case w.keeps:
		return w.giveBack(fd)
	case isNew, isClean():
		return nil
	case w.set:
		return dropCapabilities(fd)
	}
	_, err := Kill(fd, w.IsIn)
	return err
}

// giveBack gives the shadow the bits back that writes with passthrough have taken.
func (w *Writing) giveBack(fd int) error {
	if w.kept == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Fchmod(fd, st.Mode&0o7777|w.kept)
}
