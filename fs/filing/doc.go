// Package filing finds the claim files of a data directory, and tells package filed what
// happens to them: a claim file is a lock file that programs write by a convention of
// their own, which the policy declares.
//
// A Clerk does that. It is asked before an operation, and told after it:
//
//	Asks      which locks an operation on a name has to have beside the name's own
//	May       whether content may have the name of a claim file
//	MayTidy   whether the daemon may remove a name: it removes stale claim files alone
//	Changed   a name holds another file now, or none
//	Made      a directory was made, or has got another name
//	Moved     two names of directories have changed hands
//
// Whoever opens, makes or replaces a claim file, where nothing is claimed, takes the lock
// on what it stands for at the same time (Asks): so nobody else is at work there when the
// claim begins, and there is nothing to wait for at the commit.
//
// A claim that is a directory (lockfile.OwnerDir) is also changed by what happens to the
// files in it.
//
// # Restarts
//
// What is claimed stands in the claim files themselves. Which processes may have the
// claims is kept in the state directory (Save), and Restore looks through the whole tree
// for claim files when a mount starts. It trusts the processes of this boot alone.
//
// # What it may touch
//
// The package reads claim files through the descriptors of their directories, and Remove
// goes through the mount as a program does. Names and who refers to them, the paths, the
// state directory and the audit trail are behind Engine and Name, the claims behind Room.
//
// Clerk.mu is held while what Save writes is written. Everything else has no mutex: whoever
// changes a name holds its lock.
package filing
