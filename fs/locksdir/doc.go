// Package locksdir renders the virtual directory `.locks/`: who holds what, who
// waits, what was refused and why, as files that `ls`, `cat`, `jq`, `tail -f`
// and `watch` can read.
//
// It is pure rendering. It knows neither FUSE nor the lock table nor the
// journal; what it shows it asks of a Source, the clock included, and it does
// no I/O. How a lock, a queue and a refusal are written is the business of package
// report; here is which file shows which of them, to whom, and from when.
//
// # The tree
//
//	README           what is here and what to do when stuck
//	status           the table a person wants (text)
//	status.json      the same for programs (SEED W8)
//	held/PATH.lock   the lock/v1 record of a held lock (SEED T3), one JSON object
//	waiting/PATH     who waits for PATH: one JSON object a line, next in turn first
//	names/NAME.lock  the record of a held lock without a file (SEED T2), as in held/
//	names/NAME.queue who waits for NAME, as in waiting/
//	rejected/ID/     what a refused write had written (content) and why (meta.json)
//	history/PATH/N   the content of an earlier version of PATH
//	history.jsonl    all versions of all paths, one JSON object a line
//	why              what was refused to the reader's own lineage (SEED C7, W7)
//	events.jsonl     the audit trail; it grows while it is open
//	policy           the policy in force, as TOML
//
// held/ and waiting/ are trees like the data: the lock on src/a.json is
// held/src/a.json.lock, and directories are there as long as something below
// them is.
//
// # Names
//
// Names are raw bytes, as in the data. Three kinds of them cannot be used as
// they are:
//
//   - NAME.lock would be longer than 255 bytes, the longest name Linux has;
//   - the name is that of a directory shown beside it: of `x.lock/`, when `x`
//     and something below `x.lock/` are locked; in waiting/, of any directory
//     that is waited for together with something below it;
//   - it is empty: the root itself is waited for.
//
// They are shown as PREFIX~HASH.lock (PREFIX~HASH in waiting/): as much of the
// name as fits, cut between two characters, and the first 8 hexadecimal digits of
// the SHA-256 of the whole path; more digits in the unlikely case that this name
// is taken too. The record itself always carries the whole path. So does a path
// that no kernel would hand out (an empty component, `..`): it is shown as
// ~HASH.lock at the top.
//
// # Text
//
// What a name or a command line contains never reaches a terminal as a control
// character (see package printable). The bytes in rejected/ID/content are those that
// were written.
//
// # Consistency and cost
//
// Everything in status, status.json, held/, names/ and waiting/ comes from one
// snapshot, which is taken anew when the Source's generation has moved or the
// snapshot is a second old. A big table that changes all the time would be
// snapshotted for every single file of an `ls -lR held`; so a snapshot of more
// than a hundred records that was expensive to take serves for a few times the
// time that it took, however the table moves, but for a second at most.
// The size that Stat tells is that of the content which an Open right after it
// returns, unless the table has changed in between. A heartbeat alone changes no
// size in held/ and names/: times have a fixed width.
//
// rejected/ is asked for anew each time: one entry for one path, all of them only
// to list it.
//
// # Who sees what
//
// What concerns a path is shown to those who can reach it, which the Sight of a viewer
// knows; all else is left out, in the tables, in held/ and waiting/, and line by line in
// events.jsonl. What a record shows of others, report.Record.ShownTo says. Privileged
// viewers see everything.
//
// # Kept bytes
//
// An entry of rejected/ is shown to those who may read the file that its bytes
// were meant for: to its owner, to its group as far as a viewer's groups are
// known, to everybody if the mode lets both its group and the rest read, and to
// privileged viewers, as far as the Source lets them know of it. For all others
// it is not there.
//
// # Versions
//
// history/ is a tree like the data, in which every path is a directory with the
// versions of it that are kept, besides what is below it. Where both have the same
// name the version is N~. history.jsonl has every version that is known, kept or
// not, oldest first; a rendering of it serves as long as the history does not
// change, and for a big one a few times the time that it took. What a viewer
// may know of, the Source decides.
//
// # Mutexes
//
// Tree.mu comes before eventsMu and historyMu, eventsMu before the mu of an eventView;
// every other one is taken alone. The Source is asked with any of them held: they come
// before all mutexes of whoever implements it.
//
// # Errors
//
// Every error is a syscall.Errno (ENOENT matches io/fs.ErrNotExist), except that
// of Source.Release, which Remove hands through.
package locksdir
