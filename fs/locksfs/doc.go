// Package locksfs serves the files of .locks: it gives them nodes and handles, and answers
// what a kernel asks about these, whichever way that speaks.
//
//	a kernel ──▶ FS ──▶ Tree   what is there, and who sees it (package locksdir)
//	             │  └──▶ Talk   the control file: a conversation for each open
//	             └─▶ vnodes     which path a node is, and what a handle has open
//
// A node stands for a path as long as the kernel remembers it, whether or not there is
// something at the path: that is found out at each request, by who makes it. Nothing is
// to be cached by the kernel.
//
// What is open is a snapshot, for which its user is charged, and which shows its own size
// to whoever asks by the handle. A file that grows shows it also to its opener that asks
// without one, as fstat(2) does. A listing is a snapshot, too, of which "." and ".." are
// the first.
//
// The control file is everybody's to read and write, and has no size. Only the credentials
// of its opener speak through a handle.
//
// The package has no mutex of its own, and holds none while it calls Tree or Talk.
package locksfs
