// Package proc tells who a caller is and what it holds, from /proc: the process
// behind a thread id, its ancestors, its open descriptors and mappings, its
// pending signals, whether it gets on, and when it dies. It is the lock table's only source for
// owners and lineage, and does nothing but ask the kernel; it never signals a
// process and never looks at a file that a process has open, for that could
// re-enter the mount that is asking.
//
// # Identity
//
// A process is its pid and its start time in clock ticks since boot
// (proc_pid_stat(5), field 22): the pid is reused, the pair is not, as long as
// the whole pid space does not go round within one tick. The start time of a
// process is that of its thread group leader, which an exec by another thread
// passes on.
//
// A moment is such a tick together with the last pid given out, so that
// processes born within one tick can still be told to come before or after it.
//
// # What is cached
//
// What was read of a thread is believed for some milliseconds (trustFor) without
// asking again: one system call arrives as several requests, and neighbours have
// the same ancestors. A pid cannot come round in that time. After that the start
// time is read again, and what cannot change while it is the same (the process
// behind the thread) is kept. A family is believed for a second, and that of a child
// is made of its parent's. The caches are of fixed size.
//
// Of a process that comes back, some files of /proc stay open: each look is a new one, but
// costs a fifth. An open file belongs to its process, and of another one that gets the pid
// it tells nothing. The lineage of such a process is kept as long as all of its ancestors
// live, which their pidfds tell in one system call, and its parent is the same.
//
// Each thread has a list of children of its own. That of the first thread is the only one to be
// read as long as no other one can have any, which the kernel tells (FollowForks) where a look
// at all has shown none, or the process is younger than that.
//
// The environment that a process was started with changes at execve(2) only, and answers
// about it are kept until then. The process keeps its pid and start time over execve: the
// kernel tells of it (FollowForks), or else the count of page faults stays the same only
// if no program was started.
//
// # Orphans
//
// /proc does not tell who has started a process whose parent has ended. The kernel tells
// of every fork while it happens: see FollowForks. Where it does not tell us, an orphan
// keeps the ancestors that were seen while its parent lived, and otherwise the leader of
// its process group is taken for an ancestor.
//
// # What may block
//
// In execve(2) the kernel closes the close-on-exec descriptors of a process
// while it holds the process's exec lock, and so sends FLUSH with that lock
// held. Reading /proc/PID/maps, environ, syscall, the cwd link or one below fd waits for the
// lock, and on recent kernels stat too (seen on 6.18.44): a FLUSH handler that plainly
// read them would wait for a process that waits for the handler. In the same
// way unmapping a written file sends WRITE with the memory lock held, for which
// maps and cmdline wait.
//
// Therefore nothing here blocks for long. The process that sent a request
// cannot enter or leave execve before it is answered: Thread and Exit look
// first, at a file without locks, whether it is inside; Opener need not. Any
// other process may enter it between a look and a read: whatever is asked about
// others is read by a goroutine of its own, which is left behind when it gets
// stuck, and ends when the process goes on. Each function says what it answers
// then; ErrBusy is the general word for it.
//
// A descriptor's inode is looked at with AT_STATX_DONT_SYNC, which sends no request to a FUSE
// mount, be it the one that asks, and takes no lock of the open file. Some network
// filesystems ask their server all the same: the goroutine that looks is left behind then.
//
// An epoll instance has a lock that is held while its events are written to memory, and
// reading its fdinfo waits for that, be it for ever: not even SIGKILL ends the wait, and a
// daemon that does not die keeps its data directory. So its fdinfo is not read: it is not on
// the device of the file that is looked for, and where that cannot be seen its link tells.
//
// Status, statm, schedstat, comm, limits, uid_map, fdinfo and children take no
// such lock, and stat none but the exec lock.
//
// # Vanished processes
//
// A process may be gone at any moment. That is no failure: it is ErrGone where
// the question was about a living process, and otherwise the answer that a dead
// process gives: it has nothing open, no children, no capability.
//
// # Mutexes
//
// Caches are of atomic pointers. Each process of which files are kept has kept.line, which
// guards its lineage, and kept.list, which guards the position in its list of descriptors
// and the fdinfo files. keeper.mu guards which processes have such files, and how many
// read them.
//
// Mutex order: kept.line, or Watches.mu of package ends; then keeper.mu; then Questions.mu
// of package patience and Table.mu of package forks. With either of the first two held
// processes are looked at, patiently. kept.list is taken with nothing held, and nothing
// with it.
//
// # Privilege
//
// The descriptors, mappings, environment and exit code of another user's
// process are readable only with CAP_SYS_PTRACE. A daemon of an ordinary user
// sees those of its own user's dumpable processes.
package proc
