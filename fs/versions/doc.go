// Package versions says which versions the history of a mount gets, and what they say.
//
// Package history stores what it is told. This package says when there is something to tell:
//
//	a name gets another file, or none   Step      one version, and the file before is kept
//	a file is not what its last         Inspect   a "found" version: somebody has changed it
//	version left                                  outside the mount
//	a file changes as programs append   Grow      none: the version that is there grows
//	to it
//	a file that was removed comes back  PutBack   one version
//
// # Steps
//
// A change of a name is prepared as a Step, while the name holds the file before:
//
//	Recorder.Step ──▶ Keep: what commit.Store is to do with the file before
//	      │
//	   the change
//	      │
//	      ▼
//	Step.Enter: the version after, and who could reach what was kept
//
// Whoever has a Step has the lock of the name, so that nobody comes between. A name without
// a history has a nil *Step, on which all methods may be called.
//
// The file before becomes a content of the history with its own inode, unless somebody may
// write that: then a copy is kept. Most of those who have it open to write have closed it a
// moment ago, and the kernel has not told of it yet. Where a copy would be dear (from
// commit.MaxKeptCopy on) the Recorder waits for that, for Config.Grace.
//
// # Changes outside the mount
//
// A file that is not what its last version left becomes a version of its own, before it is
// replaced or when somebody looks at it. The Engine is told of it, if somebody was there to
// see it: what happened before the mount was there (Config.Since) is nobody's fault.
//
// # Mounts without a history
//
// A mount that is read-only has a nil *Recorder: nothing is kept, and nothing is known.
//
// # Mutexes
//
// Recorder.mu guards which files grow. Nothing is called with it.
package versions
