// Package journal keeps the record of what latchfs has in flight, under the state
// directory of a data root.
//
// It tells the next start which changes were begun and not finished (intents), which
// fencing tokens may have been issued, and whether the previous stop was clean. What
// latchfs did and refused is written to the audit trail beside it (journal/audit).
//
// The package does file I/O in the directory that it was given and nowhere
// else. It knows nothing of shadows, locks or FUSE: what an intent means is the
// business of journal/commit, which writes and recovers them.
//
// # Files
//
//	journal-00000000000000NN   the current segment (NN: hexadecimal, rising)
//	journal.new                a segment being made; worthless after a crash
//
// There is one segment at a time. When it has grown past Options.MaxBytes a new
// one is written that begins with everything still of interest, is synced and
// renamed into place, and only then is the old one removed. So a segment is
// never without its beginning, and the journal is bounded by the number of
// changes in flight, not by the number of changes made. Where a crash left two
// segments the higher number is the whole truth.
//
// # Layout of a segment
//
// All integers are little-endian; CRCs are CRC-32C (Castagnoli).
//
//	         0               8           12            16
//	         +---------------+------------+------------+
//	header   | "latchjnl"    | version=1  | CRC of the |
//	         |               | (uint32)   | 12 bytes   |
//	         +---------------+------------+------------+
//
//	         0         4                 12            16            20
//	         +---------+-----------------+-------------+-------------+---------
//	frame    | length  | synced          | CRC of the  | CRC of the  | payload
//	         | of the  | (uint64)        | payload     | 16 bytes    | (JSON)
//	         | payload |                 |             | before      |
//	         +---------+-----------------+-------------+-------------+---------
//
// synced is the length of the segment that was known to be on disk when the
// frame was written. The first frame of a segment is a "start" record, which says
// what went before, followed by one "begin" for each intent carried over. A
// daemon begins a segment of its own when it starts, and one for the "close" when
// it stops, so that a clean stop leaves no record of a change that is finished. Of a file that is appended
// to a new segment carries only the records that no "known" has covered, with
// the length that is known as the intent's "size".
//
//	{"op":"start","next":7,"tokens":4096,"clean":true,"carried":1}
//	{"op":"begin","id":3,"intent":{...}}   an intent
//	{"op":"append","id":3,"at":120,        a record of 45 bytes is about to be
//	 "len":45,"crc":1234567890}            appended under intent 3 (see Append)
//	{"op":"known","id":3,"at":165}         its file is complete up to there, and on disk
//	{"op":"done","id":3}                   it is finished, or undone
//	{"op":"tokens","tokens":8192}          tokens up to here may be in use
//	{"op":"settled"}                       what an unclean stop left is gone
//	{"op":"close"}                         the daemon has stopped cleanly
//
// # Torn or corrupt
//
// A crash of the daemon ends the segment at some byte. A power cut may besides
// lose any sector that was not synced; such a sector reads as zeros. Hence a
// damaged frame is a torn tail, and is cut off together with what follows it,
// when nothing says that it was on disk once (no intact frame behind it has
// synced beyond its start) and either the file ends inside it, or zeros run
// from somewhere inside it to the end of a sector or of the file. Everything
// else is corruption, and so is a segment without all that it began with, or none
// beside what is made only after the first one: Open then returns an ErrCorrupt
// and changes nothing, for to guess on would be to forget a change that is half
// made.
package journal
