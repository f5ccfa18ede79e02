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
// Whoever reads a version knows it, and so do its relatives: up to three ancestors
// at that moment, below an interactive shell, whom the caller names. Whoever
// changes a file knows what it has made, and its relatives likewise. What counts
// for somebody about to replace a version is found on its chain, itself first,
// then its relatives from the nearest up: the first who knows any version decides.
// Of several things that one process has learned the latest counts. That joins
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
// # What fades
//
// What a process has itself read or made counts as long as it lives. What it knows
// through a relative fades after a while (the policy's fade, 10 minutes): a
// long-lived shell whose child read the file in the morning replaces it at night.
// Interactive shells are never told anything. What a process knows only from
// having written without ever looking is blind: it is stale only once somebody of
// another family has changed the file who had looked at it, or else two programs that
// both write one status file would be refused for good; and it fades, too.
//
// # Known holes, and what is done about them
//
//   - The latest look counts: a sibling's read refreshes what a parent knew, and
//     the parent's older plan passes. Only the program knows what its plan was
//     made from.
//   - vim with backupcopy=yes reads the new version just before it overwrites it;
//     there vim's own comparison of times is the guard.
//   - A process in another pid namespace cannot be told from others: policy.
//   - That there was no file is known only to who has removed it: two programs that
//     both find none and both make the first version are not told of each other.
//   - A process whose parent has ended when it writes has lost that relative, and with
//     it what that knew (a daemon that forks twice after it has read its state).
//   - Who was refused a rename away from a name and reads the new file next, to
//     remove it then and write its own (vim), learns nothing from that: Deafen.
package knowledge
