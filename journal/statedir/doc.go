// Package statedir opens the state directory of a data root, and what is in it,
// and tells whether it is this program's own.
//
// A daemon believes its journal: it finishes what the journal says was begun, and
// as root it can do that to any file. The state directory lies among data that may
// belong to somebody else, who can make a directory of that name before the first
// mount, or rename the daemon's away and put another in its place. So three things
// are asked:
//
//   - Each file and directory belongs to the user who runs the daemon, nobody else
//     may write to it, and it is opened through no link and waits for nobody
//     (OpenFile, OpenDir). Nobody but that user can have made it, then.
//   - A directory that was the daemon's own once may have been put back, with a
//     journal of long ago. Where somebody else could do that (Exposed), the data root
//     says which state directory is the last one, in an extended attribute that only
//     root can set; the state directory holds the same number (Judge, Vouch).
//   - Where nothing says so, as after an upgrade or where the filesystem has no such
//     attributes, the caller lets the directory be used only if its journal asks for
//     nothing to be done.
//
// The package knows nothing of what the files say.
package statedir
