// Package lostupdate decides whether a change would lose what somebody else has made, and
// what becomes of it then (DESIGN 6).
//
// Package knowledge remembers which process has read or made which version. This package
// says what of that counts: under which keys a file's versions are known, on whose chain the
// decider of a change is looked for, and what the policy makes of a change whose decider
// knows an older version than the one that is there.
//
//	Change ──▶ Judge.Loss ──▶ nil: nothing is lost, and it happens
//	               │
//	               ▼
//	             Loss ──▶ Answer          the change happens, or is refused
//	                      AnswerGone      the same, where nothing takes the file's place
//	                      AnswerRemoved   the same, of a name whose file was removed before
//	                      AnswerUnread    the same, at a commit
//	                      Merge           both changes are kept
//
// A change that would lose something is obeyed where the policy only warns, and where it was
// refused before and is made again (Loss.Insists). Whatever becomes of it is told to the
// Engine, with the reason in words.
//
// # The keys of a file
//
// A version is known under the path that holds it. The versions of a file with several names
// are known under LinkKey, too, which all its names share. What somebody knows under one of
// them is its own under the others: Judge asks for both, and the nearer decider counts.
//
// # Opens for reading and writing
//
// An Open is a descriptor of a process that knows an older version than it has opened:
//
//	          a read, or a read elsewhere
//	undecided ───────────────────────────▶ current: the Open is dropped
//	    │  │                                  ▲
//	    │  └── a change that is obeyed or merged
//	    ▼
//	refused    a change before any read: all that follow are refused as well
//
// # Merging
//
// A Merge has the content of the version that its writer knows. Join makes one content of
// that, of the version that is there and of what was written, or says why not (NotMerged).
// Where the contents come from is the caller's business.
//
// The package has no state of its own but that of a Loss, an Open and a Merge, which belong
// to one change each, and of a Writing, which belongs to one session. The caller guards them. It calls its Engine with no mutex held.
package lostupdate
