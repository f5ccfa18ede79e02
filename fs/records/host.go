package records

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/unfinished"
	"latchfs/lockmgr/proc"
)

// ID is the identity of a file. The zero ID is of none.
type ID = unfinished.File

// Host is what an Appender stands on: its descriptor's file, as the filesystem knows it, and
// whoever is told. The Appender's mutex may be held, but for Locks, File and where a method
// says otherwise.
type Host interface {
	Names
	Locks
	Sessions
	Judge
	Kernel
	Listener
}

// Names is where the file is.
type Names interface {
	// Path is its path, for messages.
	Path() string
	// Name is its name in a directory, of which dir is a descriptor; false of a file that
	// never had one.
	Name() (dir int, name string, ok bool)
	// Own is a descriptor (O_PATH) of the file that was opened.
	Own() (fd int)
	// IsReplaced reports whether another file took the place of that one.
	IsReplaced() bool
	// MayOpen reports whether its opener may open the file behind fd in the same way.
	MayOpen(fd int) bool
	// Reopen opens the file behind a descriptor, which may be O_PATH.
	Reopen(fd, flags int) (int, error)
	// File is the file that was opened as /proc shows it to its users.
	File() proc.File
	// Tail is the tail of the file behind fd, which has the file's name or had it last.
	Tail(fd int) (Tail, error)
	// SyncsAtClose reports whether a close makes durable what was appended.
	SyncsAtClose() bool
	// SyncName makes the name of the file behind fd durable if it was created without that.
	SyncName(fd int) error
	// Rewrite writes the file target, which has the attributes st, anew, so that a crash
	// leaves the one or the other: fill makes to what it is to be. The inode stays.
	Rewrite(target int, st *unix.Stat_t, fill func(to int) error) error
}

// A Tail is the end of a file to which records are appended; *commit.Tail says more.
type Tail interface {
	// Append appends b on behalf of w through fd, all of it or nothing, and returns the
	// record's number.
	Append(w appends.Writer, fd int, b []byte) (seq uint64, err error)
	// Appended is called when all that concerns the record is noted.
	Appended()
	Sync(seq uint64) error
	Truncate(size int64) error
	// Allocate notes what do, a fallocate(2), makes of the size.
	Allocate(do func() error) error
	Close()
}

// Locks is the lock of the file's name. The mutex of the Appender is not held but for
// TryLock's, where it may be.
type Locks interface {
	// TryLock takes the lock, whose fencing token it returns, or fails at once. It is the
	// opener's, or that of w if the opener cannot have it: a child that writes through a
	// descriptor of its parent's may have a lock that the parent has no part in.
	TryLock(w appends.Writer) (token uint64, unlock func(), err error)
	// Lock waits for it until giveUp is closed.
	Lock(w appends.Writer, giveUp <-chan struct{}) (unlock func(), err error)
	// Errno is what a program is told of an error of Lock.
	Errno(err error) unix.Errno
	// Patience is how long a close waits for it.
	Patience() time.Duration
}

// Sessions is the session that the appender's own family has on the file, or who uses its
// descriptor, if any.
type Sessions interface {
	// IsInSession reports whether somebody has a session on the file's name.
	IsInSession() bool
	// InOwnSession reports whether there is one to which AppendToOwn appends on behalf of w.
	InOwnSession(w appends.Writer) bool
	// AppendToOwn appends b on behalf of w to the shadow of the own session, or w's; done is
	// false if there is none.
	AppendToOwn(w appends.Writer, b []byte) (e unix.Errno, done bool)
	// TruncateOwn cuts that shadow.
	TruncateOwn(c *Cut) (e unix.Errno, done bool)
	// AllocateOwn makes room in that shadow by do.
	AllocateOwn(w appends.Writer, do func(fd int) error) (e unix.Errno, done bool)
}

// Judge decides what may become of the content.
type Judge interface {
	// JudgesLines reports whether each line is judged.
	JudgesLines() bool
	// JudgeLines judges b, which is about to be appended to the file behind fd. What is
	// refused is kept aside.
	JudgeLines(fd int, b []byte) unix.Errno
	// JudgeCut judges whether the file behind fd may be cut off at a size, or made longer
	// by zeros.
	JudgeCut(fd int, size int64) unix.Errno
}

// Kernel is the kernel's view of files, and the users' right to change them.
type Kernel interface {
	// AsOpener runs do on behalf of the user who opened the file.
	AsOpener(do func() error) error
	// KillSuid takes the setuid and setgid bits from the file behind fd after a change by a
	// user with that group.
	KillSuid(of ID, fd int, uid, gid uint32) unix.Errno
	// ShowEnd makes the kernel look again at a file that has another end now.
	ShowEnd(of ID, fd int, on appends.Occasion)
	// ShowAll makes the kernel read a file again.
	ShowAll(of ID)
	// HoldsLine is told that an unfinished line is held back, before anybody can find the
	// file without it: whoever asks the kernel has its own lines appended first. The mutex is
	// not held.
	HoldsLine()
}

// What is a kind of change.
type What uint8

// The kinds of changes.
const (
	Appended  What = iota // a record was added, or room for some
	Stored                // pages of a mapping have come
	Truncated             // something was cut off, or taken out
)

// A Listener is told of what is done to the file.
type Listener interface {
	// Change is what is about to be made of the file that is was; nil where nobody is to be
	// told.
	Change(what What, was *unix.Stat_t) Change
	// Grows is told that the file behind fd has begun to grow, by so many bytes that were
	// appended, and reports whether Rests is to be told of its end.
	Grows(of ID, fd, added int) bool
	// Rests is told that nothing more is appended to a file; fd is -1 if the appender has
	// another one by now.
	Rests(of ID, fd int)
	// Maps is told that the opened file may change without a word from now on, and reports
	// whether MapsNoMore is to be told of the end of that.
	Maps() bool
	MapsNoMore()
	// Committed is told how many records of how many bytes were appended since the last time.
	// The mutex is not held.
	Committed(records, size int)
	// Keep puts bytes aside that could not be appended, or may not stay, and tells of the
	// error. The mutex is not held.
	Keep(b []byte, e unix.Errno, reason string)
	// NotDurable is told that what was appended may not be on the disk.
	NotDurable(err error)
	Errorf(format string, args ...any)
	Warnf(format string, args ...any)
}

// A Change is told of when it is made.
type Change interface {
	// Keep puts a copy of the file behind fd into the history before a part of it is cut
	// off, under the lock with that token.
	Keep(token uint64, fd int)
	// Drop takes that copy out again, if there is one.
	Drop()
	// Tell tells that the file is is now.
	Tell(is *unix.Stat_t)
}
