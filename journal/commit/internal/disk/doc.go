// Package disk is the ground that the other rooms of package commit stand on: one data
// root and its state directory, seen through directory descriptors and single names,
// never through paths.
//
//	disk.go   Disk: each change to the disk is a step (Do), which tests can stop and
//	          which is repeated when somebody has made room; the reserved names in use;
//	          the journal's intents, begun, ended, or left to a recovery
//	shared.go descriptors with several holders
//	names.go  which names are not for users, and the version that a file is
//	files.go  files by descriptor: birth, names for what has none, a look that leaves
//	          no trace, syncs of directories, removal of exactly one inode's name
//	walk.go   walks over a directory and over the whole data root
//	copy.go   content: clones, and copies that leave the holes
//	attrs.go  what belongs to a file beside its content
//	read.go   content compared with a checksum
//	redo.go   a commit in place, which may be repeated from the start at any time
//	before.go what a file held before that, and whether it holds anything else by now
//	order.go  in which order names and bytes come to the disk
//	changes.go whether anything was done to a directory meanwhile
//
// # Rules
//
// Files are created nowhere but in the directory of a target and in the state
// directory. A name is removed only if it has exactly the form .latchfs-<32 hexadecimal
// digits>, or if it holds the inode that an intent is about. No symbolic link is
// followed, and no mount point is crossed by a walk: neither below the data root on the
// way down, nor on the way up into what is mounted over the data.
//
// # Mutex
//
// Disk.mu guards the reserved names in use and the intents that are left to a recovery.
// It is the last in the order: nothing is called and nothing is waited for while it is
// held. Disk.Room and Disk.Settle, which make room on a full disk, are called with whatever
// mutexes the caller of Do holds.
package disk
