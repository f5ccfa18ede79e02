// Package content knows what a session has made of the content of its file: how much of the
// old content its shadow has, whether anything was written, and whether a write is missing.
//
//	not filled   the shadow has the size of the old content and nothing of it. Whoever
//	    │        reads, reads the file that is replaced, which stays open for that; after
//	    │        the session by whoever keeps the shadow (TakeOld).
//	    ▼
//	filled       the shadow has all. What is written goes there, and so does what the
//	    │        kernel writes past the daemon, which the shadow's times tell.
//	    ▼
//	changed      it was written or cut, and nobody needs to ask any more.
//
// A shadow that has missed a write is never committed: Fail remembers that, until the end.
//
// Changes of mode, owner and times are made to the shadow, and kept: where the content stays
// what it was they are made to the file instead, which is no new version then.
//
// A Saved knows which contents of the shadow were synced, and which one was published: by their
// size and the time of the last write.
//
// The package does no I/O of its own but to look at a shadow, and to close the old file. It has
// no mutex: a Copy and a Saved belong to their session, whose mutex guards them.
package content
