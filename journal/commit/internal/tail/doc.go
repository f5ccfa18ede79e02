// Package tail appends records to files, each as a whole, and finds after a crash where
// the last whole one ends.
//
// A Tail appends records to a file itself, each as a whole:
//
//	journal: begin "append", sync     as before; once for each file, with its length
//	journal: append at, len, crc      as before; recovery cuts nothing off
//	write(file, O_APPEND)             a part of the record may be there, and is cut off
//	                                  the record is there; a power cut may take it
//	fdatasync(file)                   the record is there
//	sync(journal), where it is due    the record is there, whatever its bytes
//	...                               the next record
//	fdatasync(file)                   5 s after the last appender's close
//	journal: done                     nothing to look at
//
// The journal is synced before the first record, so that no recovery takes a
// file for one that nobody appends to. It is not synced for each: what the
// journal has lost, a file of whole lines can do without. So recovery looks at
// the end of the file in two ways:
//
//	|--- known ---|- record -|- record -|- record -|--- no record -----|
//	0             ^size      ^          ^          ^                   ^end of file
//	  not looked     checksum of each; cut at the    cut at the first NUL byte,
//	  at             first that is not whole         then behind the last newline
//
// What a Sync has acknowledged is not cut off: it ends in a newline and has no
// NUL bytes, or the journal was synced too and has its records. (A record that
// follows one which failed at the same place needs its own in the journal as
// well, or that of the failed one would speak against it.)
//
// A record is not whole if the file ends inside it, or if its checksum is wrong
// and a sector of it reads as zeros. A wrong checksum alone is no crash's doing:
// somebody has changed the file around us, and it is left as it is. As long as
// the boot and the mount are those that saw the write (Intent.Epoch), the kernel
// has lost nothing, and only a record that the file ends in is cut off. The bytes
// go to rejected/. A file that was renamed is found by its inode.
//
// Whatever else changes such a file ends the undo record first: Tail.Truncate,
// InPlace and Txn.Commit. A file that is replaced is another one.
//
// # Mutexes
//
// In this order: Tail.syncMu serialises the syncs of one file, so that waiting callers
// share one. Tail.mu guards what was appended to the file; it is held during the write and
// the journal's record of it. Set.mu guards which files have a tail, by how many it is used
// and when it ends; nothing is waited for while it is held. The mutexes of packages lazy
// and disk come after Tail.mu.
package tail
