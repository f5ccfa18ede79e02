// Command bench measures latchfs against three other ways to reach the same
// files: the plain directory, go-fuse's loopback example and bindfs. It prints
// one Markdown report with times, ratios and the targets of DESIGN section 12.
//
// # Method
//
// Every column (a mount with its daemon, or the plain directory) gets its own
// copy of the same files on one filesystem. All of them are mounted for the
// whole run and take turns: in each round every work is measured once on every
// column, beginning with another column each round. What slows the machine down
// for a while therefore slows all columns down, and a ratio is taken within one
// round before the median over the rounds is.
//
// The load comes from client processes: this program started again (package load). Neither a
// daemon nor the controlling process shares their runtime, and the controlling
// process never touches a mount, so that a hanging daemon cannot hang it: a
// client that outlives its deadline is killed, the FUSE connection aborted and
// the mount taken away. A client is single-threaded, with the garbage collector
// off; work for several clients says so.
//
// Caches are alike for all columns: hot work runs over its files once before
// the clock starts, cold work drops the kernel's inodes and names first, and
// dirty pages are written out between two measurements.
//
// # Durability
//
// A version of latchfs that replaces another one is on disk when close returns
// (durability "auto"), so the safe save elsewhere is the sequence that promises the same:
// temporary file, fsync, rename, fsync of the directory. The columns "ordered" and "lazy"
// are compared with the same without the syncs that these leave out. Where programs
// usually sync nothing (create, untar, lines to an open file), the work is measured the
// way programs do it, and nor does latchfs; the column "full" shows what it costs to have
// that on disk, too, and "ordered" the part of the directory's fsync.
//
// # Many locks
//
// With -locks the program measures the table of locks instead: one process holds
// so many through one descriptor of .locks/control, and another waits for a tenth
// of them. It is done twice, for the times and for the memory; for the latter as
// many wait as are held, and the daemon runs with GOGC=5, so that what it has in
// memory is what it needs.
//
// # Curves
//
// With -curves the program measures how a cost changes while one thing grows: writers, the
// file, the directory, what a process has open, what the mount has seen before, the policy.
// What a point needs is made below the mounts where that does not matter to them.
//
// These are measurements, not tests: no test depends on a time.
package main
