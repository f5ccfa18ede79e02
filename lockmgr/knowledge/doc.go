// Package knowledge remembers which version of a file each process has seen, so
// that nobody replaces a version that he does not know (DESIGN §6). It is pure:
// no I/O, no clock, no paths. The caller says what time it is, what was read, what
// was changed and by whom, and asks before something is replaced.
//
// # Versions
//
// A key stands for a name under which a file is found: versions belong to the
// name, for a careful save puts another inode there each time. A version is told
// from every other by its Stamp (device, inode, size and time of modification);
// no file at all is a version too, with the zero Stamp, so that a removal is a
// change like any other. Versions are numbered upwards for each key. A change that
// nobody has announced (around the mount, or by a recovery) shows as a stamp that
// is not known, and becomes a version of an unknown author.
//
// # Who knows what
//
// A process that reads a version knows it, and so do its relatives: up to three
// ancestors at that moment, below an interactive shell, whom the caller names. A
// process that changes a file knows what it has made, and its relatives likewise. Of
// several versions that one process knows the newest counts.
//
// When a process is about to replace a version, the decider is looked for on its
// chain: itself first, then its relatives from the nearest up. The first that has ever
// read the file decides. That joins
//
//	jq . f > t && mv t f            jq reads, mv renames, the shell is between them
//	x=$(jq .n f); echo "$x" > f     a grandchild reads, the shell writes
//	jq . f | sponge f               siblings
//	bash r.sh; bash w.sh            cousins, two up on both sides
//	recipes of make, npm run,       likewise
//	timeout CMD, su -c CMD          up to three up
//	python: subprocess.run(["mv"])  the parent read, the child renames
//
// and keeps apart what has no near ancestor in common: two scripts started from
// one prompt, the jobs of cron, the workers that run in subshells of their own.
// The parallel commands of one agent process are its children: what one has read,
// the next may replace, as if the agent had read it.
//
// # Who is somebody else
//
// The decider is stale if, since the version that it knows, a process has changed the
// file that is neither the decider nor a descendant of it, at any depth: each change is
// kept with the whole lineage of its author. So a script is never refused because of
// what its own make, git or npm did, however deep below it. Two workers of one script
// are strangers to each other all the same, since the nearest reader of each is the
// worker itself.
//
// A file that is renamed over another was made from what its writers knew: they come
// first on the chain of a rename. So two recipes of one make, each of which renames what
// its own sed has made, are kept apart. What the script itself has written between the two is
// its own work all the same: see Basis.IsOwnWork. That a script puts back a copy over what it has
// itself changed since looks just like that, and is told by Basis.IsUndo and the bytes.
//
// A chain on which nobody has ever read the file has nothing to lose, and may
// overwrite it (Readers). Only for a file that is renamed over another the process that
// made it counts as well (Makers): a worker must not publish what another worker has
// put under the temporary name that they share.
//
// # Descriptors that append
//
// Whoever appends need not have read the file, and nothing is lost by that. But a process
// may cut the file through such a descriptor, and means the version then that was there
// when it last used the descriptor: a Use. What others have saved since it would lose.
//
// # Removals
//
// A removal is deliberate and needs no knowledge: the caller does not ask. What is
// created in its place within two seconds is taken for the second step of one change,
// and decided by what was known before the removal. After that the removal stands, and
// what was there is nobody's loss.
//
// # What fades
//
// What a process has itself read counts as long as it lives. What it knows through a
// descendant fades after a while (the policy's fade, 10 minutes): a long-lived shell
// whose child read the file in the morning replaces it at night. Interactive shells are
// never told anything.
//
// # Insisting
//
// A decider that was refused and tries again, one second to ten minutes later and
// without having read the file since, insists: a user has answered "overwrite", or a
// daemon saves the state that it has in memory. One that tries again and again insists as soon
// as it has paused for a second, or after a minute: a library that asks until it is let through
// does not mean it. What becomes of that is the policy's. Where
// somebody else was refused, who had put in place what the decider has written, only whoever
// does that again insists: the decider was not told.
//
// # Known holes, and what is done about them
//
//   - A newer look of a descendant refreshes what a process knew, and a plan that the
//     process made earlier passes. Only the program knows what its plan was made from.
//   - vim with backupcopy=yes reads the new version just before it overwrites it;
//     there vim's own comparison of times is the guard.
//   - A process in another pid namespace cannot be told from others: policy.
//   - That there was no file is known only to the process that removed it: two programs
//     that both find none and both make the first version are not told of each other.
//   - A process whose parent has ended has lost its ancestors, and with them what they
//     know. Its changes stay theirs as far as the caller can tell who has started it.
//   - A process that was refused a rename away from a name and reads the new file next,
//     to remove it then and write its own (vim), learns nothing from that: Deafen.
package knowledge
