package transaction

import "golang.org/x/sys/unix"

// Change is what the members of a transaction have done to a name, beside writing the file
// that has it.
type Change uint8

const (
	// Unchanged is a name to which they have done nothing.
	Unchanged Change = iota
	// Made is a name that something has got that is neither a file nor a directory. It is
	// there, and hidden from everybody else.
	Made
	// MadeDir is Made of a directory.
	MadeDir
	// Removed is a name of which what has it, and is not a directory, is gone for the members.
	Removed
	// RemovedDir is Removed of a directory.
	RemovedDir
	// Moved is a name whose file has another one for the members, as a File.
	Moved
)

var changes = [...]string{"unchanged", "made", "made directory", "removed", "removed directory", "moved"}

func (c Change) String() string { return changes[c] }

// IsGone reports whether what has the name is gone for the members.
func (c Change) IsGone() bool { return c >= Removed }

// IsDir reports whether it is a directory that was made or removed.
func (c Change) IsDir() bool { return c == MadeDir || c == RemovedDir }

// Hides reports whether a process does not see what has the name: a member what is gone, and
// everybody else what was made.
func (c Change) Hides(fromMember bool) bool { return c != Unchanged && fromMember == c.IsGone() }

// Kind is what the directory has under a name, whoever sees it.
type Kind uint8

const (
	// Nothing is what a free name has.
	Nothing Kind = iota
	// Regular is a regular file with this name alone.
	Regular
	// Linked is a regular file with other names, too.
	Linked
	// Dir is a directory.
	Dir
	// Special is anything else, a symbolic link for instance.
	Special
)

// KindOf is what fstatat(2) has found.
func KindOf(st *unix.Stat_t) Kind {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return Dir
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return Special
	case st.Nlink > 1:
		return Linked
	}
	return Regular
}

// Writing is who writes the file that has a name.
type Writing uint8

const (
	// NotWritten is a file that nobody writes.
	NotWritten Writing = iota
	// ByMembers is a file that members of the transaction write that asks.
	ByMembers
	// ByOthers is a file that anybody else writes.
	ByOthers
)

// Place is a name, as a change of it by a member finds it.
type Place struct {
	Change  Change
	Writing Writing
	Kind    Kind
	Errno   unix.Errno // why Kind is Nothing
	// InPlace and Shared are looked up where the file is written, and a method says so:
	// whether it is written in place, and whether what was written belongs under other names,
	// too, which nobody knows, so that it must not lose its own.
	InPlace, Shared bool
}

// IsSeen reports whether the name leads to anything for the members.
func (p *Place) IsSeen() bool {
	return p.Writing == ByMembers || !p.Change.IsGone() && p.Kind != Nothing
}

// MayMove looks whether a rename of from, of which InPlace is looked up, to another name can
// be staged. EXDEV makes mv copy, which can: the answer for whatever has no private copy.
func MayMove(from, to *Place, noReplace bool) unix.Errno {
	switch {
	case from.Writing == NotWritten && from.Change.IsGone():
		return unix.ENOENT
	case from.Writing != NotWritten && from.InPlace:
		return unix.EXDEV
	case from.Writing != NotWritten:
	case from.Kind == Nothing:
		return from.Errno
	case from.Kind != Regular:
		return unix.EXDEV
	}
	switch {
	case !to.IsSeen():
		return 0
	case noReplace:
		return unix.EEXIST
	case to.Kind == Nothing || to.Writing != NotWritten:
		return 0
	case to.Kind == Dir:
		return unix.EISDIR
	case to.Change != Unchanged:
		return unix.EXDEV // a link that was made in the transaction
	}
	return 0
}

// Base is what a file replaces that gets a name.
type Base uint8

const (
	// NoBase says that it replaces nothing.
	NoBase Base = iota
	// WritersBase is what the file was to replace that the members write there. That one ends.
	WritersBase
	// ChangesBase is what the members have removed or moved.
	ChangesBase
	// KindsBase is what has the name.
	KindsBase
)

// Replaced is what a file replaces that a member gives the name; InPlace and Shared are looked
// up. replaces says that what the members write there replaces a file.
func (p *Place) Replaced(replaces bool) (Base, unix.Errno) {
	switch {
	case p.Writing == ByOthers, p.Writing == ByMembers && p.Shared:
		return NoBase, unix.EBUSY
	case p.Writing == ByMembers && replaces && !p.InPlace: // in place, the link goes, as by any rename
		return WritersBase, 0
	case p.Change == Removed, p.Change == Moved:
		return ChangesBase, 0
	case p.Change != Unchanged:
		return NoBase, unix.EBUSY
	case p.Kind == Nothing && p.Errno == unix.ENOENT:
		return NoBase, 0
	case p.Kind == Nothing:
		return NoBase, p.Errno
	case p.Kind == Dir:
		return NoBase, unix.EISDIR
	}
	return KindsBase, 0
}

// MayRemove looks whether a member may remove what has the name, and is no directory; Shared
// is looked up.
func (p *Place) MayRemove() unix.Errno {
	switch {
	case p.Change == MadeDir:
		return unix.EISDIR
	case p.Change == Made:
		return 0
	case p.Writing == ByOthers, p.Writing == ByMembers && p.Shared:
		return unix.EBUSY
	case p.Writing == NotWritten && p.Kind == Dir:
		return unix.EISDIR
	}
	return 0
}

// MayMake looks whether a member may give the name to something new that has no private copy,
// a directory or something else. comesBack says that there is a directory that the members have
// removed, and that may stand for the new one.
func (p *Place) MayMake(dir bool) (comesBack bool, e unix.Errno) {
	comesBack = dir && p.Change == RemovedDir
	if p.IsSeen() || p.Change != Unchanged && !comesBack {
		return false, unix.EEXIST
	}
	return comesBack, 0
}
