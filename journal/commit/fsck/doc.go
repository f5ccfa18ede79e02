// Package fsck examines a data root that no daemon has in use, and puts right what can be
// put right of it.
//
//	check.go     what is in the data root and in the state directory
//	intents.go   what the next mount does about each intent of the journal
//	rejected.go  the rejected store
//	repair.go    what a mount does at its start, and a new journal where it is damaged
//	salvage.go   what becomes of shadows when no journal says what they are for
//
// Check changes nothing. Repair removes no bytes for which the reason cannot be read: they
// are kept in the rejected store, or beside their place under a name that begins with
// "corrupt-". It may be repeated, as after a crash.
//
// It has no mutex: one check, and one repair, runs in one goroutine.
package fsck
