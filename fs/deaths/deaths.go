// Package deaths judges what a process leaves that dies by a signal with a file open: whether
// the file is finished, and what is said about it (DESIGN 4.2). It is pure: who died how, and
// what the file is like, comes in.
//
// A process that was asked to stop may have tidied up; one that was killed outright, or has
// crashed, has not. The policy's on-kill says what becomes of the file:
//
//	on-kill    an existing file     a new file
//	commit     what was written     what was written
//	rollback   the old version      nothing
//	auto       the old version      nothing, if its writer was not asked to stop
//
// Under "auto" what the writer has synced stays: a file to which nothing was written since
// becomes that, and a new file that was synced once becomes what was written.
package deaths

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Death is the death of a process by a signal, with a file open.
type Death struct {
	Owner   lockmgr.Owner
	Signal  unix.Signal
	Program string
	Lineage []lockmgr.Ancestor // as it was then: afterwards nobody can tell
}

// WasStopped reports whether the process was asked to stop, by somebody or by a
// limit, rather than killed outright or crashed.
func (d *Death) WasStopped() bool {
	switch d.Signal {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGALRM, unix.SIGXCPU:
		return true
	}
	return false
}

// worse is the one of two deaths that counts for a file: that which leaves the least hope that
// the file is finished. known, the one before, may be nil. A helper in a pipeline that dies
// of SIGPIPE because its reader had enough has merely inherited the writer's descriptor.
func worse(known, d *Death, writer lockmgr.Owner) *Death {
	if d.Signal == unix.SIGPIPE && d.Owner != writer {
		return known
	}
	if known == nil || known.WasStopped() || !d.WasStopped() {
		return d
	}
	return known
}

// File is what the process had open.
type File struct {
	IsNew     bool        // it has no earlier version
	WasSynced bool        // the process has synced it
	IsSynced  func() bool // nothing was written since; asked only if WasSynced
}

// KeepsOut reports whether the death keeps what was written from becoming the file. That
// of nobody, nil, does not.
func (d *Death) KeepsOut(onKill policy.OnKill, f File) bool {
	switch {
	case d == nil, onKill == policy.Commit:
		return false
	case onKill == policy.Rollback:
		return true
	case f.WasSynced && f.IsSynced():
		return false
	case !f.IsNew:
		return true
	}
	// A new file exists from its first fsync on: nobody may lose what that has
	// acknowledged.
	return !d.WasStopped() && !f.WasSynced
}

// isTold reports whether the close of a living process tells it that a death has kept what
// was written out of the file. Whoever opened the file is told, unless it is the output of
// what that runs; a bystander who has inherited the descriptor is not: a shell, a timeout, a
// sleep. If something was written since the death, somebody who lives wrote it, who is not to
// believe that it is in the file.
func isTold(isOpener, isOutput, writtenSince bool) bool {
	return writtenSince || isOpener && !isOutput
}

// String says who was killed, and by what.
func (d *Death) String() string {
	return fmt.Sprintf("%s[%d] was killed by %s", cmp.Or(d.Program, "process"), d.Owner.PID, unix.SignalName(d.Signal))
}

// Outcome says what has become of the bytes that a process had written, whose death keeps
// them out of the file.
func Outcome(size int64, isNew bool) string {
	what := "nothing that it had written became the file"
	if size > 0 {
		what = "the " + Size(size) + " that it had written did not become the file"
	}
	if !isNew {
		what += ", which is still the earlier version"
	}
	return what
}
