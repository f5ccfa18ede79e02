// Package patience asks questions that may block in the kernel for as long as a process
// likes, and gives up on those that do.
//
// A question that blocks in the kernel keeps a thread there until it is answered,
// which may be never: a process decides by itself for how long its memory or its exec
// lock is taken, with a filesystem of its own that does not answer. So each is asked by a
// goroutine of its own, which is left behind when it gets stuck, and there are never many:
// about one process, about those of one user, and in all. Whoever comes when there are too
// many waits, as it would for the answer. About a process of which a question hangs, given
// up a second ago and still not answered, nothing more is asked until it has answered or
// is gone.
//
// A question that was given up goes on by itself. It must not use what its asker goes on
// to use; the procfs stays open for it.
//
// Mutex order: Questions.mu is the only mutex, and the last of all: with it held nothing is
// waited for, and of /proc only files are opened and read that take no lock of a process.
package patience
