package appends

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Writer is who wrote last through a descriptor: what is held back is appended on its
// behalf.
type Writer struct {
	Thread   uint32 // as the kernel names it, 0 where it cannot
	UID, GID uint32
	KillSuid bool // its changes clear setuid and setgid bits
}

// An Occasion is what makes bytes go to the file, and so what the kernel knows of the file's new
// end.
type Occasion uint8

const (
	// Written says that the WRITE under way has brought them, and its reply tells the kernel.
	Written Occasion = iota
	// Asked says that somebody asks for the file's attributes, and the reply tells the kernel. A notification
	// before that reply would make the kernel drop what the reply says (attr_version in
	// fs/fuse/inode.c), and an lseek(2) to the end go by the size that the kernel has guessed.
	Asked
	// Late is anything else. The kernel does not know that the file grows now.
	Late
)

// An End is the end of the file that a queue appends to, and what the queue has to know of
// those who write it. A Queue calls all of it with its mutex held, but for Lock, IsWorking
// and Patience.
type End interface {
	// TryLock takes the lock of the file's name for what w has written, or fails at once.
	TryLock(w Writer) (unlock func(), err error)
	// Lock likewise takes the lock of the file's name, and waits for it until giveUp is closed.
	Lock(w Writer, giveUp <-chan struct{}) (unlock func(), err error)
	// Errno is what a program is told of an error of Lock.
	Errno(err error) unix.Errno
	// Append writes b on behalf of w at the end of the file as it is now, all of it or
	// nothing. The lock is held. EBADMSG says that b was judged, not accepted and kept aside.
	Append(w Writer, b []byte, on Occasion) unix.Errno
	// HasOpen reports whether something of a line that is not finished was appended.
	HasOpen() bool
	// CutOpen takes that out of the file and returns it, nil if it cannot. The lock is held.
	CutOpen() []byte
	// Keep puts bytes aside that cannot be appended, and tells of the error.
	Keep(b []byte, e unix.Errno, reason string)
	// HoldsLine is told when the queue begins to hold a line back that is not finished, and
	// when it no longer does.
	HoldsLine(holds bool)
	// JudgesLines reports whether each line is judged: nobody sees half of one then.
	JudgesLines() bool
	// InOwnSession reports whether what w appends goes to a session of its own family. Nobody else
	// sees half of a line there, and what the family writes next by other descriptors comes after it.
	InOwnSession(w Writer) bool
	// IsWorking reports whether a thread runs, waits for a processor, or writes: it may be
	// about to write the rest of its line.
	IsWorking(thread uint32) bool
	// Patience is how long a close waits for the lock.
	Patience() time.Duration
}
