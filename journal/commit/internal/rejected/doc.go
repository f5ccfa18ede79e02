// Package rejected keeps bytes that were refused, or cut off by a recovery, under
// rejected/ in the state directory, within limits of age and size.
//
//	rejected/ID/content        the bytes
//	rejected/ID/meta.json      why they are there, and whose they are
//	rejected/.new-ID/          the same, while it is being made
//	ballast-N                  space to give back, so that bytes can be kept on
//	                           a full disk; after it the oldest in rejected/ go
//
// They give way to other changes on a full disk, too, when nothing else does: see GiveWay.
//
// An entry is there when its directory has its name, and gone when its content is: Tidy
// finishes what a crash has interrupted of either. Nothing is synced but what Forget
// erases. Where there are too many bytes, the oldest entry of the user with most goes
// first, so that nobody loses what is within an equal share.
//
// # Mutexes
//
// Store.listMu guards the list of entries. It is held while entries are removed. Store.mu
// guards whether the ballast is complete, and nothing is called while it is held. Both
// come before the mutex of package disk, and neither is taken while the other is held.
package rejected
