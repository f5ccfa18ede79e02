// Package history knows the earlier versions of files: which there are, by whom
// they were made, when, from what base, and which of their contents are kept.
//
// It writes a log and an index of it, in the history's directory inside the
// state directory, and removes contents there. It does not put them there: that
// is the business of journal/commit, which moves the inode that has lost its
// name to the path that ContentPath says.
//
// # Files
//
//	history/log         the records (internal/record), oldest first: see journal.Log
//	history/log.new     a log being rewritten; worthless after a crash
//	history/log.end     where the log ended at a clean stop (internal/logend); goes at the next start
//	history/XX/ID       the content of that id: the inode that the file was (internal/contents)
//	history/XX/.new-ID  a copy being made; worthless after a crash
//
// # Versions and contents
//
// A path's versions are numbered from 1. The last one is what the path holds
// now, and so has no content in the history; a path that holds nothing has one
// that says so. Whatever was made through the mount is there with its maker;
// a state that was found and not made is there as "found".
//
// Every version that is a file has a content id from the beginning, and a file
// that is renamed takes its content's id along: one content may be that of
// versions of several paths. Whether a content is kept its file says and nothing
// else. So neither can be wrong: a content moves in one step, after the log has
// named it, and a version without a file is merely not kept.
//
// Who could reach a content when it was kept is in the log, too, once it has been told
// (Reached): the directories above it that not everybody could search.
//
// # Memory
//
// The index has in memory what entering a version needs, and what decides which content
// goes: for each path with versions its name, the state and the content of the last one;
// for each version where its record is in the log, and 20 bytes more; for each content
// that is kept its weight, age and user. Everything else about a version is read from the
// log when somebody asks for it, without a lock: the index says where, and a reader holds
// a log that is replaced meanwhile open. So a version costs 32 bytes, a path about 120,
// and a content that is kept about 80; the number of records bounds them all. The names
// are a tree, in which the rename of a directory changes one node (internal/names); what is
// kept has its order, by age and for each user (internal/shelf). All but the names
// is in arenas, by number and without pointers (internal/arena), so the garbage
// collector does not look at it. No save reads the log.
//
// Store.mu guards the index and all else that is in memory. Whoever empties the trash
// holds Store.emptying, and takes mu after it. Queries take mu to find what they need in
// the index, and read the log without it.
//
// A rewrite of the log copies the index (a few megabytes), writes the records from the
// copy while others go on, and tells the index at the end where they are.
//
// The index gives up a content that is not kept when its version is neither the last of
// its path nor the one before. A commit that is found unfinished may keep it later all
// the same: then its version is looked for in the log.
//
// # After a crash
//
// The log is not synced for each record, only every few seconds: a power cut may
// take its tail. After a clean stop all of it is on disk, and a log that is shorter than
// that is refused: what it does not name would go. Contents that no record names are removed at Open, and so are
// those that have a second name, or not the size that their record says. What
// then is in the history and is the last version of its path too is Dangling:
// its successor's record was lost. The caller looks at the path and says Found
// or Gone.
//
// # Bounds
//
// There are three: how many contents a path keeps, which the caller says with
// each Keep; how many bytes and what age all contents together may have, what
// was kept first going first; and how many records there are. Of these, when
// there are too many, those of paths that are gone and of which nothing is kept
// go first, then versions of which nothing is kept. A path that is gone is
// dropped whole when a minute later nothing is kept of it that is not kept as
// another path's that is there: temporary files that were renamed over another,
// and vim's backups.
//
// What is pinned (Pin) none of them takes: whoever puts many versions back makes as many
// new ones, and would push out what it is about to need.
package history
