// Package sessionstate says where a session is in its life, and what may follow:
//
//	writing ─┬─► ending ────┬─► committed ──► apart
//	         │              └─► rolledBack
//	         ├─► goingLive ─┬─► live
//	         │              ├─► committed
//	         │              └─► rolledBack
//	         └─► detached ────► dropped
//
// A session is begun by an open that may write, and everybody of its family who opens the
// file meanwhile joins it. It ends once, at the first of these:
//
//   - the close, or the RELEASE, after which nobody can write the shadow any more;
//   - the commit or the rollback of the transaction that it is a part of;
//   - the moment in which its file goes live;
//   - the end of the mount.
//
// A handle may outlive its session: a descriptor that the holder set missed, or one of a
// live file.
//
// The package is pure, and has no mutex: a Machine belongs to its session, whose mutex guards
// it. What an end gives back, and to whom, the session knows.
package sessionstate
