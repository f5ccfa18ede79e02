// Package appends gathers what programs append to files into whole lines.
//
// A Queue belongs to one descriptor that was opened with O_APPEND:
//
//	Write ──▶ │ one⏎ two⏎ │ thr │          ──▶ the end of the file
//	            due: waits   the rest: waits
//	            for the lock for its newline
//
// Whole lines are due. They go to the end of the file as one record, under the lock of the
// file's name: at once if that is free, and otherwise by a goroutine that waits for it. No
// write waits, for the kernel holds the file's inode meanwhile. The order of the bytes is
// that of the writes.
//
// The rest waits for its newline, so that nobody else's line comes in between when a program
// writes one in several pieces. It becomes due when
//
//   - its writer was quiet for 100 ms, or has been at work on it for 2 s, unless each line is
//     judged;
//   - it is longer than MaxLine, or more than its user may make the daemon keep;
//   - somebody closes or syncs the file, or looks at it (Flush, Drain).
//
// # Who is told
//
// A write whose own bytes fail gets the error, and the program still has the bytes. Where
// bytes of an earlier write fail, the next write gets the error, and each close until then.
// Those bytes are kept aside (End.Keep), except where a judge has not accepted them and has
// kept them itself.
//
// # A writer that is killed
//
// The line that it has not finished is taken back (TakeBack): what is held back, and if no
// line is before it, what is in the file. That needs the file's lock, for which a dying
// process waits half a second. Whoever gets the lock meanwhile to append makes the cut first.
//
// # Mutexes
//
// Queue.mu guards what a queue holds. A queue holds it while it calls its End, except where
// End says otherwise, and so while a record is written: it is before all mutexes that an End
// takes, and whoever holds one of those calls no method of the queue. Nobody waits for the
// file's lock while holding it.
package appends
