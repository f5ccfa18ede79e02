// Package merging reads and writes files where two changes of one are joined. Which changes
// those are, and what comes of the three contents, package lostupdate knows.
//
//	base      what its writer has read           Bases: kept when it was replaced, or in the history
//	theirs    what the name holds now            File.Read
//	mine      what the writer has written        a Draft, or the File that a rename moves
//
// A session's draft is joined with theirs when the session ends, under the lock that it has
// held since (Join). At a rename the joined content is written into the temporary file itself,
// in place and crash-safe, which is then renamed like any other (Into): so the new version
// appears in one step, and the kernel's idea of which inode has which name stays true. Whatever
// is refused after that gives the writer back what was written (TakeBack, Back).
//
// Whoever can reach a directory outside the mount may give a name in it to another file at any
// time, and the daemon may read and write everything. So a File is a name with the file that
// was looked at: another one is not read, and not written to.
//
// The package has no mutex but that of bases.Store, and nothing is held while it calls its
// Engine or a Draft but what the caller holds.
package merging
