// Package calling knows who makes a request: the thread that the kernel names, its process
// and the ancestors of that, its user and groups, its program, and what else the process
// belongs to: a transaction, or a lock that its environment names.
//
// A Caller is made once for each request. One look at the thread says which process it is;
// everything else is looked up when somebody asks, once, and is the same from then on: the
// process may run another program, or have ended, before the request is answered.
//
// # Who owns what
//
// A session, a lock and a transaction belong to a process, and to those that it starts
// from then on: an Identity is such a process, and Caller.BelongsTo says whether a caller
// is one of them. It is so by descent; as a member of a transaction, whose sessions are
// those of the process that began it; or as the process that has left a session to a
// descendant (Identity.PassedTo):
//
//	script ── opens f ──▶ Identity{script}
//	  └─ daemon ── inherits the descriptor, the script closes its own:
//	                      Identity{daemon, from script}: both use it, and the other
//	                      descendants of the script
//
// A caller of whom nothing is known (Caller.Foreign), because it is in a pid namespace
// that cannot be seen, or gone, is an owner of its own: it belongs to nobody.
//
// # Joining
//
// A process that does not descend from the holder of a lock, as it was started by a job
// server or in a container, joins it by an environment variable (control.SessionEnv).
// JoinGuard makes the holder an ancestor of it. That is not done for every request: it
// takes a look into the environment.
//
// The package knows no files and no sessions. Processes come in through Procs, and what the
// filesystem knows of them through Engine. A Caller is used by one goroutine at a time, but
// for what is looked up once, which any may ask.
package calling
