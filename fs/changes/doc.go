// Package changes tells what a name holds now, who has made it so, and by which operation. A
// save, a rename, an exchange, a link, a creation and a removal each make one Change of every
// name that they touch, and Teller.Tell gives it to all recorders, in this order:
//
//  1. The history enters the version. It is the only recorder that outlives a crash, so it
//     hears of a commit before that is durable, and of a rename or a removal in the same
//     moment in which no directory above can get another name (Engine.HoldPaths). Where a
//     change can be told only later, Change.Enter is called there and then.
//  2. The knowledge of versions notes whose the version is, and who knows it: before anybody
//     whom the following steps let in looks at the file.
//  3. The live names: a file that is live stays so under its new name, and its old name is an
//     ordinary one. A name is live or not before a waiter asks which it is.
//  4. The claims of reads on the name end, for which the lessons about programs hear first who
//     has written: what comes of a claim depends on it.
//  5. A claim file claims what it says now.
//  6. The audit trail comes last, for it says what the others have done with it.
//
// Whoever makes the change holds the lock of the name until all have heard. The inodes have
// the names that they have after it.
//
// Directories and symbolic links have no versions. The audit trail alone hears of them
// (Teller.Made, Teller.Gone), with what is needed to bring them back.
//
// A Teller keeps nothing, and has no mutex. What it tells whom is decided here; how the live
// names and the claims are kept is the business of its Engine.
package changes
