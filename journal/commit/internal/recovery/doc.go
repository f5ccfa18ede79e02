// Package recovery puts right what a crash has left: it stands above all that writes to
// the data root, and knows what each intent of the journal means when its daemon is gone.
//
// Recover deals with the intents that the journal has pending, before anything
// else touches the data root. What the journal cannot know of after a power cut
// (it is not synced for each intent) is found by Sweep, a walk over the whole
// tree that may run beside sessions. Both remove only names of exactly the form
// .latchfs-<32 hexadecimal digits> that no living shadow has and no pending
// intent needs.
//
// In this order: the commits that were not on disk, because what follows would take the
// old versions away; the transactions, done or undone as a whole; shadows, replacements
// and commits in place one by one; the ends of files that were appended to; what has to be
// looked for everywhere, because its directory has moved; then the state directory.
// A commit in place is finished over nothing that somebody has written to the file since
// the crash: what it holds beside its two versions stays, or is kept under rejected/ before.
// So is what has got the name of a transaction's part.
//
// Every step may be repeated from the start at any time, for a crash may hit the recovery
// as well.
//
// # Mutex
//
// Recoverer.recovering is held during all of a recovery: two of them would finish the same
// things, the slower one when something newer is in place already. It comes before all
// other mutexes of package commit and the rooms below it.
package recovery
