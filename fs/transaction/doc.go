// Package transaction decides transactions: what the members of a transaction change is
// published as a whole or not at all (DESIGN §7).
//
// A Txn begins with a lock, its claim. Its members are the process that began it, the
// descendants that this has started since, and whoever has the label in its environment
// (Running.Of). They stage what they change: each file that they write is a File, and what
// they remove or make beside that a Name.
//
//	             Commit: the validators have    Commit: every File and Name agrees,
//	             looked; or Rollback            and the Store has it all
//	open ──────────────────────────▶ deciding ──────────────────────▶ committed
//	 members stage, and their locks    │   it gets no more files
//	 are kept                          └────────────────────────────▶ rolled back
//	                                        Rollback, or somebody objects
//
// # How a commit goes
//
//  1. Every File is judged. Validators may take long, so nothing is held for it but the
//     transaction, and what they have seen is compared in step 3.
//  2. No directory changes its path from here on (Engine.HoldPaths), and the transaction gets
//     no more files. All Files are locked.
//  3. The claim must still have its lock, and every File must agree (File.Check).
//  4. Everything is prepared: the files, the removals, and what is written in place. That
//     comes last, for its preparation changes the times of a file of which another name may
//     be replaced or removed.
//  5. The files that are about to be replaced are marked, and the Store decides. What it has
//     decided and not finished, it recovers.
//  6. The changes of names are told, in the order in which the members made them; then every
//     File ends, which tells of what it published.
//  7. The Files are unlocked, those who have renamed files open follow them, the names are
//     shown as they are now, and the locks are given back.
//
// An objection before the store has decided ends the commit for all: whatever was marked is
// unmarked, every File is rolled back and keeps aside what was written, nothing is told but
// that the transaction was rolled back, and step 7 shows the names as they were.
//
// # Names
//
// What the members do to a name, beside writing the file that has it, is a Change of it. What
// one of them may do next depends on that, on who writes the file, and on what the directory
// has: a Place.
//
//	unchanged ──make──▶ made, made directory ──remove──▶ unchanged
//	unchanged ──remove, rename──▶ removed, moved
//	unchanged ──rmdir──▶ removed directory ──mkdir──▶ unchanged, if the new one is like the old
//
// A File may get a name whose file was removed or moved: it replaces that at the commit. If
// that is refused, what was removed is unchanged again.
//
// # Mutexes
//
// Txn.mu guards what a transaction keeps, and is held by each change of names from its check
// to its staging (Lock), and by a commit or rollback from its begin to its end. All methods
// of an Engine, a File, a Name and a Store are called with it held. Then come, in this order:
// what HoldPaths holds, and what File.Lock locks, of all Files at once. Nobody waits for a lock
// of the lock table meanwhile. Running.mu guards the list of transactions, and nothing is
// called while it is held.
package transaction
