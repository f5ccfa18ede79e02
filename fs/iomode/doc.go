// Package iomode says which way the kernel reads and writes an open file, so that all opens of
// one node agree with each other.
//
//	mode          read(2), write(2)   mappings           the kernel calls it
//	Passthrough   the backing file    the backing file   FOPEN_PASSTHROUGH
//	Mixed         the daemon          the backing file   FOPEN_PASSTHROUGH | FOPEN_DIRECT_IO
//	Cached        the node's pages    the node's pages   0, or FOPEN_KEEP_CACHE
//	Watched       the daemon          the node's pages   FOPEN_DIRECT_IO
//	Direct        the daemon          the node's pages   FOPEN_DIRECT_IO
//
// The kernel takes a node for one inode, and has it in one state at a time (fs/fuse/iomode.c of
// the kernel's source):
//
//	           Passthrough, Mixed             Cached, Watched
//	passed ◀────────────────────── neither ──────────────────▶ cached
//	   │      the first open          ▲      the first open       │
//	   └─────────────────────────────▶┴◀──────────────────────────┘
//	             the last end                the last end
//
//	passed    each further open is Passthrough or Mixed, and has the same backing file; any
//	          other one fails with EIO
//	cached    an open that is Passthrough or Mixed fails; Cached, Watched and Direct go together
//	neither   only Direct is open, if anything is
//
// So an open gets what is wanted for it if that goes with the node's state. Else it gets Mixed
// of a node that is passed, which is as good as Direct, and Cached of one that is cached. One
// that wants Direct of a node in neither state gets Mixed, too, where there is a backing file:
// the next open may want Passthrough, and its answer may reach the kernel first.
//
// A Node counts what it has answered, and the kernel what has arrived there. An open counts here
// from before its answer until after its RELEASE, and so never shorter than there. Direct does not
// count, here or, unless it is mapped, there: it may be refused, or its mapping, if a later open
// passes through. That takes a last cached open that ends in between, or a file that can be
// registered only then.
//
// # Who may be passed through
//
// Everybody who reads. What the kernel writes to a backing file it writes with the rights of
// the thread that registered that: root's, or nobody's. A writer is passed through where these
// are its own; root, too, where they are nobody's, as long as there is space enough that nothing
// reserved for root is needed. A writer with O_DIRECT is not, nor one of a file with the setgid
// bit and no right to execute for its group.
//
// A backing file stays registered for later opens, until the node stands for another file or
// for none (Forget), or somebody opens it to write with other rights while it is not in use.
//
// # When cached pages are kept
//
// When the file has the size and the times that it had at the node's last open in mode Cached:
// what changes it outside the mount changes these.
//
// The package has no I/O of its own, and knows neither files nor sessions: what it asks is
// behind File, and what a node stands for its user knows.
//
// Mutex order: Node.mu is the only mutex; a File is asked while it is held.
package iomode
