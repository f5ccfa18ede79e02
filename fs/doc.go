// Package fs is the filesystem: it serves the kernel's requests from a data directory, and
// keeps the promises of latchfs while doing so. How the kernel speaks is not its business but
// package face's, which mounts it. The lock table is package lockmgr's, the mechanics of
// shadows and their publication package journal/commit's; this package joins them.
//
// # Parts
//
// FS is put together from parts on three floors. The ground has what lies on disk, what the
// kernel knows of it, who asks and which rules hold; the engine keeps the promises, with
// locks, sessions and commits; the operations are what the kernel asks for. A part stands
// above those that it uses, and knows no other: ground, engine and operations list them from
// below, FS.wire puts them together, and TestPartsStandInOrder holds them to it. Each is
// declared in the file that has its name. What a part makes (a session, an opening, a rename)
// knows that part; FS is known only to what shows .locks, and to the adapters by which other
// packages call back, as a rule called by the package's name with Engine.
//
// # Nodes
//
// An inode is one backing inode, for life: it holds an O_PATH descriptor of it. Every
// access goes through descriptors and single names, so no symlink and no rename leads
// outside the data directory. A name is a dentry (package dcache), and what is kept with
// it stays with it. What the kernel takes for an inode is a node, with a number that is
// never reused: it stands for the same inode as long as the kernel remembers it, but for
// one case, below.
//
// # Sessions
//
// A session is one owner's open-for-write of one file, from the open to the
// last close. It owns the file's lock and a shadow, the private copy being
// written. The shadow is an inode of its own, because an inode has one size and
// one page cache: readers keep the committed version, whose inode never
// changes. The writer gets to the shadow like this:
//
//	writer                 kernel                     latchfs
//	open(f, O_WRONLY) ---> OPEN node 7 -------------> waits for the lock,
//	                                                  makes the shadow
//	                       <------------------------- ESTALE
//	                       walks the path again
//	                       LOOKUP "f" --------------> this thread: node 9
//	                       OPEN node 9 -------------> handle on the shadow
//	write, close --------> FLUSH -------------------> the last close: checks,
//	                                                  fsync, rename: node 9 is
//	                                                  the file now
//
// Only the session's owner and its descendants are led to the shadow; everybody else
// finds the committed version until the commit.
//
// That costs a walk. Where nobody has the committed file open, as a rule, the
// session takes its node over instead: node 7 stands for the shadow then, and everybody who
// looks the name up from then on gets a new node for the committed inode.
//
// # Waiting
//
// OPEN is sent without any lock of the kernel's, so a writer waits there.
// Operations on names, creation among them, are sent under the locks of
// directories and inodes, and nothing may wait in them: parking.go says where
// they wait. The kernel repeats a call answered ESTALE once, so no thread is
// answered that twice: see package rewalk.
//
// # Claims
//
// Where the policy says that reads claim (lost-update = "serialize"), an open for
// reading takes an update lock before it pins a version, and a reader whose file has
// a newer version after the wait is answered ESTALE: see readclaim.go. The lock goes
// from the reader, when that has done its work, to its relatives: see package readclaim.
//
// # Closing
//
// FLUSH comes at every close of every descriptor in every process. The session
// ends when no process that could have inherited the descriptor still has it open
// for writing or mapped: see flush.go.
package fs
