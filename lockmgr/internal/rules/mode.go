package rules

import "fmt"

// Mode is the strength of a lock; a larger Mode is stronger. The zero Mode is
// invalid, so that a forgotten field is an error and not a weak lock.
type Mode uint8

const (
	// Shared admits other Shared locks and one Update lock.
	Shared Mode = iota + 1
	// Update is for reading now and writing later: it admits Shared locks, but
	// no second Update, since of two that mean to write only one can.
	Update
	// Exclusive admits nobody else.
	Exclusive

	// Modes is the size of an array indexed by Mode.
	Modes = int(Exclusive) + 1
)

// compatible is the mode matrix of the package comment.
var compatible = [Modes][Modes]bool{
	Shared: {Shared: true, Update: true},
	Update: {Shared: true},
}

// GoesWith reports whether locks of the two modes go together, whoever has them.
func (m Mode) GoesWith(x Mode) bool { return compatible[m][x] }

// String returns the lower-case name of the mode.
func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case Update:
		return "update"
	case Exclusive:
		return "exclusive"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Class says by which rules a lock is compared with others.
type Class uint8

const (
	// Session is a lock of latchfs itself: an open for writing, a path
	// operation, a guard.
	Session Class = iota
	// Flock is a flock(2) lock: whole file, one for each open file description.
	Flock
	// Posix is an fcntl(2) byte-range lock, traditional or open file
	// description.
	Posix
)

// String returns the lower-case name of the class.
func (c Class) String() string {
	switch c {
	case Session:
		return "session"
	case Flock:
		return "flock"
	case Posix:
		return "posix"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}
