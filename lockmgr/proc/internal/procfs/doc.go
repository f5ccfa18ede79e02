// Package procfs reads the files of a procfs and knows their formats. It keeps nothing of
// what it reads, does not know which question an answer is for, and has no mutex: an open
// Root does not change, and may be used by several goroutines at once.
//
// Every error that means that the process, the thread or the descriptor does not exist
// any more is ErrGone; all others are those of the system calls. A read that a signal
// interrupts is repeated.
//
// A read may block for as long as a process likes (see package proc, "What may block").
// Those that may say so; whoever calls them gives a goroutine away for it, which keeps the
// Root open by Retain and Release.
//
// Parsers take bytes, do no I/O, and answer for any input: numbers of what is malformed
// are 0, or an error tells. Numbers in comments are the field numbers of the man page.
package procfs
