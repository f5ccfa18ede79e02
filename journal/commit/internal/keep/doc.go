// Package keep moves content that loses its name into the history, at a replacement, a
// removal or a rename. It has no state and no mutex: each operation is one or two steps
// on the disk, after each of which a crash leaves something that the next start tells.
//
// Old content goes under history/ as the inode that it is, with a content id for
// a name; package history says what the ids stand for. Where the inode cannot
// go there (another filesystem, subvolume or quota project), or may yet be
// written, by a descriptor or by another name that it has, a copy does: a clone of any size, or a copy of up to 16 MiB. What can
// neither go there nor be copied is not kept; no commit fails for that.
//
// Remove is unlink(2) that keeps the file, in one step: a rename into the
// history. RenameOver is rename(2) that keeps the file which it replaces: that
// is linked into the history first, because the rename must remain the one step
// that it is. A crash in between leaves an inode with two names, which the
// opening of the history tells by its count of links, and undoes.
package keep
