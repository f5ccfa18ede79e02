// Package holders finds out whether anybody can still write a file. A close after which
// nobody can is the commit, and its result is what close(2) returns, so that the question is
// asked at each of them.
//
// The kernel answers it too late: it tells of each close by each process (FLUSH), but of the
// last one (RELEASE) only when that has returned. So the processes are looked at. Those
// that may have the file are its holder set:
//
//	seen          the processes that have opened the file, or closed a descriptor of it
//	 ├─ child     and all that descend from them: whoever inherited a descriptor has it
//	 └─ child     from one of these, and each of them announces its own close
//
// A process holds the file if it has a descriptor to write it, or has it mapped to be
// written. In doubt it does: RELEASE will tell, or the next look. That is how the set goes
// with what processes do:
//
//   - fork(2), then a close by the parent: its children are asked at its close, and those
//     who hold the file are seen from then on. When the parent is dead nobody knows any more
//     whose children they were.
//   - dup(2): a look finds the other descriptor.
//   - execve(2): a process in it cannot be looked at, and holds the file.
//   - a descriptor that is passed over a socket: whoever gets it may not be of the set, and
//     sends no FLUSH before its own close. Anybody finds it among all processes, where RELEASE
//     has not come.
//   - death by a signal: the descriptors are gone before the FLUSH of each of them comes,
//     which tells how the process has ended. Nobody holds the file then, and whether it is
//     finished is not known: Finding.Dying are the processes to wait for (Patience).
//   - a process that the kernel does not show to this one: another user's, where the daemon is
//     an ordinary user's (Config.Doubts), one in another pid namespace, or one that hides
//     itself. It holds the file until it has closed what it has opened. After that it holds it
//     in doubt, unless it is the daemon's own user's, if it has used it, or was born since it
//     was opened; whoever comes for the file next waits a moment for RELEASE (IsUnseen).
//   - a mapping whose descriptor is closed: it tells of no end. Whoever is interested looks
//     again where IsOnlyMapped.
//
// A look takes about 3 µs for each descriptor of the process, and is charged to the user who
// writes the file. A user who has had too many of them looked at has nobody looked at for a
// while: RELEASE will tell.
//
// The package knows processes, and files as /proc shows them. What a close ends is its
// user's business. It has no mutex: see Set.
package holders
