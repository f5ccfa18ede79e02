// Package records is the end of the file that programs append to (`>>`).
//
// An Appender is one descriptor that was opened with O_APPEND. Its queue (package appends)
// gathers whole lines; each record that the queue hands on is a commit of its own, under the
// lock of the file's name:
//
//	WRITE ──▶ appends.Queue ──▶ Append ──▶ the file that has the name now
//	             lines            │
//	                              ├─ the shadow of a session of the appender's own family,
//	                              │  whose commit would replace what is appended to the file
//	                              └─ nowhere: the lines were judged, and not accepted
//
// # Which file
//
// The file is the one that was opened, or the one that took its place under its name, as a
// careful save puts it there, if the opener may open that, too. A file without a name is
// kept, and so is one that goes on under another name. Who appends looks for it each time:
// files also change outside the mount.
//
// # What is not for the end
//
// Pages of a mapping go to the file that was opened, at their place (Store), and do not make
// it longer. With passthrough they go there without a word, and the host is told for how long
// that may be (Map). A cut (Truncate) keeps the inode, which others follow; what it cuts off
// becomes a version. Room that is made for a file (Allocate) is the file's: records come
// behind it.
//
// # A line that is not finished
//
// The appender remembers what its last record has left unfinished (package unfinished). When
// its writer is killed (DropUnfinished) that is taken out: cut off where it is the end of the
// file, and otherwise the file is written anew without it.
//
// # Who is told
//
// The Host is told of each change (Change), of the growth of a file when that begins and when
// it rests, and of the records in one word for each close (Drain).
//
// # Mutexes
//
// Appender.mu guards which file it is and what was appended to it. It is held while records
// are written, and comes after that of the queue; a Host is called with it, except where Host
// says otherwise. Room.mu guards which appenders there are and which hold a line back; nothing
// is called with it.
package records
