// Package rewalk remembers which threads were told to walk their path again, and what each
// of them was promised.
//
// A system call on a path whose request is answered ESTALE is not over: the kernel looks the
// path up once more, from its beginning, and sends the request a second time. It does so
// once; a second ESTALE is what the program gets. That is how latchfs leads a thread to
// another node than the one to which its name led at first, or has it wait where the kernel
// holds no locks.
//
//	Put               the request comes again
//	 (none) ──▶ promised ─────────────────────▶ Take, Remove: the promise is kept
//	                │
//	                └──▶ abandoned: the thread is dead, in another system call, asks for
//	                     something else, or has not come in time
//
// # For whom, and for how long
//
// A promise is for one system call of one thread, which its id, its start time and, where
// /proc shows it, the call with its arguments tell from any other. A place in a queue that a
// signal has interrupted (Wait) alone is for a later call: the program repeats it by itself.
//
// A promise that nobody comes for ends by itself: the Sweep looks at the threads every
// sweepPeriod while there are promises. While a request of the thread works on it (Park), it
// stays. A thread whose time is over, but whose system call is not, is late: what was reserved
// for it is given back, and that it was told to walk again is remembered, for the kernel does
// not walk a third time: until a request of it is answered to which its walk has led (Answered),
// it finds its name to be gone (Missed), or its system call is over.
//
// Threads of other pid namespaces have no id that can be told: Strangers are for them.
//
// Table.mu guards the table and what its Promises hold; of what an entry holds beside that,
// whatever its owner changes in Update. The engine is called without it.
package rewalk
