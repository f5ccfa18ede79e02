// Package lazy publishes versions that are not known to be on disk yet, and goes back to
// the version before where a power cut has taken a part of them.
//
// A lazy commit waits for no sync, so the new version may be in place before its
// content is on disk. What it takes to go back stands by until then:
//
//	journal: begin "lazy", sync       old version; once for each directory
//	link shadow -> .latchfs-HEX       old version
//	marker                            old version; the marker's inode has no name
//	exchange, or link a new name      new version; if that is not whole: the old one
//	rename .latchfs-HEX -> history/   as before; the old version is found there. If
//	                                    it is not kept it stays where it is
//	...                               more commits of the same file, each with a marker
//	fsync(newest), or syncfs          new version, after a second at the latest; or newest
//	                                    written back, before a sync of the directory
//	unlink .latchfs-HEX, the marker   as before
//	journal: done                     at a clean stop, after syncfs
//
// The marker is a name. Where the disk keeps the order (disk.KeepsOrder) it is a link of one
// file in the state directory, .latchfs-lazy- and what it says in base 32: no inode is made
// for it, nor freed. Where that cannot be, or the name is too long, it is a symbolic link
// .latchfs-HEX, whose text says the same:
//
//	latchfs-lazy-2 CRC SEQ INO BIRTH SIZE MTIME CRC OLDINO OLD KEEP NAME
//	               |   |   |          |    |     |   |      |   |    the file
//	               |   |   |          |    |     |   |      |   its content id in the history, or -
//	               |   |   |          |    |     |   |      its reserved name, or -
//	               |   |   |          |    |     |   the inode that is replaced, 0 if none is
//	               |   |   |          |    |     of the content
//	               |   |   |          |    its modification time, in nanoseconds
//	               |   |   |          of the content
//	               |   |   the new version's inode
//	               |   rises from commit to commit
//	               of what follows
//
// A journaling filesystem makes changes of one directory durable in their order,
// and the text of a symbolic link together with its name; only the content of files is
// not in that order. The file that markers are links of is made before the journal is synced
// for the directory. So after a power cut the marker is there if the exchange is.
// Recovery goes through the markers of a directory, the newest first: if the
// name holds the marker's inode, and a checksum says that its content is whole,
// it is synced, else the old version gets the name (or it goes, if there was
// none) and is looked at in its turn. The torn bytes go to rejected/. A file that
// was modified later than the marker says was changed by somebody else: there, as
// in appended files, a wrong checksum counts only where the file is short or a
// sector of it reads as zeros. None does as long as boot and mount are the same. A
// directory that is not where the intent says is looked for.
//
// Once the newest version of a file is on disk, so is its name, and the versions
// before are nobody's. Whatever would keep a recovery from telling settles the
// file first: another name for it, a change in place, a record appended to it, a
// later modification time, the removal of the old version from the history. A file that
// had no version before may be renamed to a free name unsettled: see Move. Content
// of more than 1 MiB, or of 16 MiB where the file is new, in
// another filesystem below the data root, or where there are no symbolic links
// or no exchange is published as Ordered says.
//
// What else need not be on disk at once is synced with the commits: see Soon.
//
// A sync that fails is tried again, but the kernel tells of a write that was lost only
// once. So the next sync is believed only where the disk itself, asked past what the
// kernel has in memory, gives the content; until then the marker stays.
//
// # Mutexes
//
// Set.settling is held while commits are settled, with syncs of their files. Set.mu comes
// after it and guards which commits are unsettled, which directories may have markers, what
// is to be synced soon, which syncs have failed, and
// the timer; of other mutexes only the journal's is taken while it is held. Both come
// before the mutexes of package disk. What Soon was told of is synced with neither held.
package lazy
