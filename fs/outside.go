package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Kernel is what the filesystem asks of the kernel of its own accord. The mount has the
// kernel's connection for it (package face), the simulation a kernel of its own.
type Kernel interface {
	// InodeNotify makes the kernel forget the attributes of a node, and the pages of a
	// part of it; a negative offset leaves the pages. It waits for whoever has such a
	// page locked, never for the lock of an inode or a directory.
	InodeNotify(node uint64, off, length int64)
	// EntryNotify makes the kernel forget a name. It waits for the directory's lock.
	EntryNotify(dir uint64, name string)
	// RegisterBacking registers a backing file for passthrough, with the credentials that
	// the thread has at that moment.
	RegisterBacking(fd int) (id int32, e unix.Errno)
	// UnregisterBacking ends the registration of a backing file.
	UnregisterBacking(id int32) unix.Errno
	// MapsDirect reports whether a file that is opened with Opened.Direct can be mapped.
	MapsDirect() bool
}

// Procs tells of processes. The mount has a *proc.Reader for it, which says what each
// method answers; the simulation has processes of its own.
type Procs interface {
	// Who is it?
	Thread(tid uint32) (proc.Thread, error)
	Opener(tid uint32) (proc.Thread, error)
	Process(pid int32) (proc.Thread, error)
	All() []lockmgr.Owner
	Now() lockmgr.Birth

	// To whom does it belong?
	Lineage(pid int32) []lockmgr.Ancestor
	IDs(pid int32) []int32
	Family(o lockmgr.Owner) proc.Family
	Descendants(pid int32) []int32
	FollowForks() error
	UnfollowForks()

	// Does it live, and what does it do?
	Alive(o lockmgr.Owner) bool
	Exit(tid uint32) (sig int, exiting bool)
	ExitOf(pid int32) (sig int, exiting bool)
	HasWritten(pid int32) (written, known bool)
	RunsAsParent(pid int32) bool
	Closer(tid uint32) (th proc.Thread, sig int, exiting bool, err error)
	Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error)
	WatchEnd(o lockmgr.Owner) (dead <-chan struct{}, end func() proc.End, stop func(), err error)
	Pulse(pid int32) (proc.Pulse, error)
	Pending(tid uint32) proc.Pending
	Syscall(tid uint32) (call proc.Call, ok bool)
	GivenPath(tid uint32) (g proc.Given, ok bool)

	// What has it open?
	Opens(pid int32, f proc.File) (writable, readable int, err error)
	OpensOfCloser(o lockmgr.Owner, f proc.File) (writable, readable int, err error)
	Descriptors(pid int32) int64
	AtStart(pid int32, f proc.File) bool
	IsOutput(pid int32, f proc.File) bool
	MapsWritable(pid int32, f, backing proc.File) (bool, error)

	// What is it, and what may it do?
	Describe(pid int32) proc.Description
	Program(pid int32) string
	Identify(pid int32) proc.Program
	EnvOf(o lockmgr.Owner, names []string) string
	HasCap(tid uint32, capability int) bool
	Groups(tid uint32) (groups []uint32, known bool)
	FileLimit(pid int32) (bytes uint64, limited bool)
}

var _ Procs = (*proc.Reader)(nil)
