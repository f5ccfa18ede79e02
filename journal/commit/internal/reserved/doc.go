// Package reserved gives what a session has written a name in a directory: one that no user
// has, .latchfs-HEX. Behind each stands an intent of the journal, so that whoever finds the name
// after a crash knows what is to become of it.
//
//	Take         journal: begin, and the name is claimed; the file gets it afterwards
//	Link         the same, and a file without a name gets it
//	Announce     the intent alone, ahead of the name: Adopt is the rest
//	Retag        another intent stands for the name; Replace, for what is not synced any more
//	MoveTo       another name, in another directory, with an intent of its own
//	Gone         journal: done; the name is not on the disk
//	Drop         unlink, journal: done
//	HandOver     somebody else has the name and its intent
//	LeaveToRecovery  a recovery of this run ends both
//
// A name is begun in the journal before it is on the disk, and done when it is gone from there:
// an intent without a name is nothing to be done, and a name without an intent is an orphan.
//
// # Directories
//
// A Name has a descriptor of its directory of its own. While it borrows (Borrow), what it is
// given to take a name in stays the caller's, so that a name that lasts no longer than one call
// costs no descriptor; Own ends that.
//
// The package stands on package disk alone. It has no mutex: a Name belongs to one goroutine at
// a time.
package reserved
