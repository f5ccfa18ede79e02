// Command latchfs mounts a directory so that every program that works in it
// writes safely: one writer at a time, readers see old or new and never a torn
// file, and the close that ends a write is its commit.
//
// This room parses, wires, prints and exits. What a command does lives in the
// rooms below; here is one file for each subcommand, and beside them:
//
//	app.go         exit codes, usage errors, the tree of commands
//	helper.go      the shapes in which mount(8) calls the program
//	daemon.go      the life of a mount: ready, signals, watchdog, shutdown
//	processors.go  how many processors the daemon uses
//	background.go  the daemon as a process of its own
//	log.go         the only place that configures logging
//	mounts.go      which latchfs mounts there are
//	locate.go      which file of which mount a name is
//	explain.go     what a failure has to do with the mount that it came from
//	selectors.go   the flags that say what to lock, and how
//	control.go     conversations with a mount's control file
//	record.go      what is held, in words
//	guarded.go     a command that runs under a lock
//	workers.go     who works in a directory from before the mount
//	view.go        the mount that a command reads .locks of
//	undotrail.go   what the audit trail has for undo
//	put.go         how a file of the mount is written
//	terminal.go    content that may go to a terminal
//	moment.go      points in time, as people write them
//	actor.go       who did something, and who is meant by a name
//	auditevent.go  events of the audit trail, in words
//
// Exit codes: 0 success, 1 failure, 2 usage, 8 lock not acquired, and what CMD
// returned for guard. Called by mount(8) it speaks that program's codes instead.
package main

import (
	"os"
	"runtime"

	"latchfs/journal/validate"
)

// version is set by the linker (make build).
var version = "devel"

// The first thread is the main goroutine's alone: work that is done as another user would
// take from it the signal that whoever started the daemon may have asked for at its own end
// (PR_SET_PDEATHSIG).
func init() { runtime.LockOSThread() }

func main() {
	validate.Serve()
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}
