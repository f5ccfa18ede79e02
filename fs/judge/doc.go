// Package judge decides whether content may become a version of a name whose policy has
// validators. Package validate has these; this package says what of which content they are
// asked, and when, and what is told of their answer.
//
//	a session ends, or its transaction    Accepted.Judge    the Draft, for each of its names
//	RENAME, LINK, MKNOD                   Judge.Admit       Candidates: content that exists already
//	content that latchfs itself makes     Judge.Check
//	an append, or a cut of what grows     Judge.Lines, Judge.Cut
//
// The rules are those of the name that content is to have (Judge.Rules). Live files are
// nobody's to judge. Where a file has several names and is written in place, those of all of
// them count.
//
// Content is judged as it stood still: what was changed meanwhile is looked at again, a few
// times (ErrUnsettled). What was accepted is known by its version.
//
// # Names
//
// RENAME and LINK give a name to content that exists. What is refused stays where it is. While
// they are sent the kernel holds the locks of directories, which a validating command may need
// for a look around. So what may take its time (TakesTime) is judged where a conflicting
// operation waits, and the repeated operation finds in its Passed what was accepted: the lock
// has been the same ever since.
//
// # Commands
//
// A daemon that root runs has each command run as the user whom the policy names, never as
// root (FindUsers). Before Judge.RunAs says who that is no command runs.
//
// # Lines
//
// What is appended is judged by itself where that can be (ByLines): the size that the file has
// then and, where the policy asks for that, each line. One that was begun by an earlier append
// is judged as a whole, when its end comes. A file may be cut off only where a line ends.
//
// # What is told
//
// Errno, Reason, Note and VerdictOf say what a program, everybody, the audit trail and those
// who may see the content are told of an error of this package. The first two tell nothing of
// the content.
//
// The package has no mutex. A Passed may be used by several threads at once; an Accepted is
// guarded by its user. Nothing is held while content is judged but what the caller holds.
package judge
