// Package lockview shows the lock table to package locksdir, and takes away locks whose
// records are removed there.
//
// Held has one record for each lock and key under which people see it, Waiting one for
// each request, with those that are in its way: the nearest of them by name, and how many
// there are.
//
// Release ends a lock on behalf of a viewer:
//
//	its own                   released: the viewer's user holds it, and the viewer's process
//	                          or an ancestor. A session has to be ended by its writer.
//	stale, its user's         stolen
//	orphaned, its user's      released: a file claims it, and nobody lives who may have it
//	stale, of another user    refused: EPERM
//	in use                    refused: EBUSY
//
// Root and the mount's owner count as each user. What several hold is ended for all of
// them or for none; what was not shown is left alone, be it another lock in the same place
// or one on a directory above.
//
// What a lock is shown as, and what ends with it, is behind Engine. The package has no
// state.
package lockview
