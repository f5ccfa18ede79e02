// Package family tells which ancestors of a process share what it knows: who has read
// something may have told its parent, and whoever is told may write. It is pure: what a
// process runs, and who its ancestors are, its user has seen.
//
// Going up from a process, up to MaxRelatives ancestors are its relatives; those beyond
// share nothing, but what the process does is no stranger's work to them. The way ends
//
//   - below the first process, and below a launcher, which starts programs that have
//     nothing to do with each other;
//   - below an interactive shell, where a person is in between: of a process that has it
//     among its next MaxRelatives ancestors it is known which one.
//
// Of an orphan, whose way up ends too soon, those who may have started it are added by
// Add; they share nothing either. Most processes are asked about once, and their parents
// were: OfChild makes a family of the parent's.
package family
