// Package proc tells who a caller is and what it holds, from /proc: the process
// behind a thread id, its ancestors, its open descriptors and mappings, its
// pending signals, and when it dies. It is the lock table's only source for
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
// What was read of a thread or a lineage is believed for a few milliseconds
// (trustFor) without asking again: one system call arrives as several requests.
// A pid cannot come round in that time. After that a thread's start time is
// read again, and what cannot change while it is the same (the process behind
// the thread) is kept. Both caches are of fixed size.
//
// # What may block
//
// The kernel closes the close-on-exec descriptors of a process while it holds
// the process's exec lock, and so sends FLUSH with that lock held; unmapping a
// written file sends WRITE with the memory lock held. Reading /proc/PID/maps,
// environ or syscall takes these locks. A handler that read them plainly would
// wait for a process that waits for the handler. The functions that need one of
// these files (MapsWritable, Env, Syscall) therefore recognise a process in the
// middle of an exec where they can, and give up after a moment (ErrBusy) where
// they cannot. All others read only what takes no such lock.
//
// # Vanished processes
//
// A process may be gone at any moment. That is no failure: it is ErrGone where
// the question was about a living process, and otherwise the answer that a dead
// process gives: it has nothing open, no children, no capability.
//
// # Privilege
//
// The descriptors, mappings, environment and exit code of another user's
// process are readable only with CAP_SYS_PTRACE. A daemon of an ordinary user
// sees those of its own user's dumpable processes.
package proc
