// Package ctl answers what programs write to .locks/control: it takes locks for those
// who open nothing, gives them back, and says who holds what. The language is package
// control's; this package knows what each request does. It knows no FUSE and does no
// I/O: files, rights and processes are behind Engine and Procs.
//
// # Conversations
//
// Each open of the control file is a Conversation. It belongs to the process that opened
// it; when that closes its last descriptor, or dies, it belongs to a descendant that has
// one, too. A request is done when its line is written. Most replies can be read at
// once; a request that waits for a lock, or decides about a transaction, is answered
// later, and does not keep later ones from being done:
//
//	Write ─▶ parse ─▶ run ─┬─▶ reply ──────────────────────────▶ Read
//	                       └─▶ wait ─▶ collect ─▶ settle ─▶ reply ─▶ Read
//
// One goroutine of a conversation collects the waits that are over; the first wait
// starts it, and Close ends it.
//
// # Claims
//
// A Claim is a lock that was taken so. It is on a lockkey.Target: paths, trees and names,
// all or none of them. Its states:
//
//	asked ──▶ waiting ──▶ held ──▶ released   by a request, by Close, or by the end of
//	  │          │          │                 the process to which it belongs
//	  │          │          └────▶ stolen     fenced until it is given back
//	  └──────────┴──▶ refused
//
// A claim is in Claims from the moment in which its lock is in the lock table until it
// is released or refused. Claims.Follow gives it the new path when a directory above is
// renamed: whoever does that, and whoever enters a claim, keeps the other out, with the
// mutex that Engine.HoldPaths takes.
//
// While a claim is stolen its descendants are fenced: Claims.Stolen tells the engine what
// they may not touch. A claim may be a transaction, which ends no later than it.
//
// # Pins
//
// A conversation may have versions pinned: the history keeps them until it is closed, or says
// unpin.
//
// # Labels of processes
//
// Actors are the labels that processes were given while they ran. A label holds for the
// process and for its descendants, and ends with the process.
//
// # Mutex order
//
// Conversation.mu guards one conversation, Claims.mu all claims, Actors.mu all labels of
// processes. Whoever holds a mutex takes only those of the lines below:
//
//	Conversation.mu
//	what Engine.HoldPaths takes
//	Actors.mu, Claims.mu
//
// None is held over I/O, nor over a wait. Under Claims.mu the engine is asked for
// NameKeys alone, under Conversation.mu for nothing. The comment above fs.FS has their
// places in the order of the whole engine, and its TestMutexOrder holds both packages to
// it.
package ctl
