// Package commit is the mechanics of a session's file: how the private copy
// that a writer works on (the shadow) is made, how it becomes the file, and how
// whatever a crash leaves of that is put right.
//
// The package works on directory descriptors and single names only, never on
// paths, and creates files nowhere but in the directory of the target and in
// the state directory. It takes no locks on files and asks nobody: whether a
// commit is due and allowed was decided before it is called.
//
// # The life of a shadow
//
//	NewShadow   an unnamed file (O_TMPFILE) in the target's directory
//	   |        with the metadata of the file that it is to replace
//	Fill        content of the base version: reflink, else a sparse copy
//	   |
//	Mark        from here on Dirty tells whether anything was written
//	   |
//	Publish | InPlace | Reject      the shadow becomes the file, or is written
//	   |                            into it, or is kept aside
//	Discard     always, at the end: gives back what is left
//
// An unnamed file leaves nothing behind in a crash. Where the filesystem has
// none, the shadow has a reserved name from the beginning and an intent in the
// journal that says so.
//
// # Publishing
//
// Over an existing file, with a crash possible after every step:
//
//	fsync(shadow)                     old version, no trace
//	journal: begin "replace"          old version; the intent names nothing
//	link shadow -> .latchfs-HEX       old version; recovery removes the link
//	compare the name with the base    as before; a difference is a conflict
//	exchange .latchfs-HEX and name    new version, complete; recovery takes the
//	                                    next step
//	compare .latchfs-HEX and the base as before; a difference is a conflict, too,
//	                                    and the exchange is undone: so is it by
//	                                    recovery
//	rename .latchfs-HEX -> history/   new version; if it is not kept: unlink
//	journal: done                     as before
//	fsync(directory)                  new version, survives a power cut
//
// The intent has the inode numbers of the shadow and of the base, by which
// recovery tells what has the reserved name: both inodes lived when it was
// written, so the numbers differ. At no moment has the old inode two names.
//
// Where the filesystem has no exchange the old inode is linked into the history,
// if it is to be kept, and the shadow renamed over it. After a crash between the
// two, recovery removes the link.
//
// Btrfs forgets what was synced without a name: there the link comes first, with
// an intent "shadow" that the other one replaces, also for a new name, which is
// then renamed into place.
//
// A new name is linked directly: link(2) fails where the name exists, so there
// is nothing to compare and nothing to undo.
//
// In place, for files that must keep their inode (hard links, files that are
// mount points, directories and attributes that we may not write):
//
//	fsync(shadow)                     old version
//	copy target -> history/           old version, if it is to be kept
//	journal: begin "inplace"          old version
//	link shadow -> .latchfs-HEX       old version, unless the intent is on disk:
//	fsync(directory), sync(journal)     recovery then does the copy, all of it
//	copy shadow -> target             recovery repeats the copy from the start
//	fsync(target)                     new version
//	unlink .latchfs-HEX               new version; recovery finds nothing to do
//	journal: done, sync
//
// A redo shadow lies beside its target, or in the state directory where the
// target's may not be written. Target and shadow are found again by inode and
// name if their directory was renamed before the recovery.
//
// # Transactions
//
// Each change of a transaction is an intent of its own that names it. They are
// prepared one by one, which changes nothing that anybody sees but for what Make
// has made, and decided together:
//
//	Make            under a reserved name, journal: begin "made", rename
//	Put             fsync(shadow), journal: begin "replace", link .latchfs-HEX
//	PutInPlace      the same with "inplace"
//	Remove          journal: begin "remove"
//	                                  before here: undone by recovery
//	fsync(each directory)
//	journal: begin "txn", sync        decided; from here on: done by recovery
//	rename, copy, unlink, rmdir       in this order; each may be repeated
//	fsync(each directory)
//	journal: done for each, and last for "txn"
//
// What is made (directories, symbolic links and the like, which have no private
// copy) exists from then on; whoever uses the package hides it meanwhile.
//
// # The history
//
// Old content goes under history/ as the inode that it is, with a content id for
// a name; package history says what the ids stand for. Where the inode cannot
// go there (another filesystem, subvolume or quota project), or may yet be
// written, a copy does: a clone of any size, or a copy of up to 16 MiB. What can
// neither go there nor be copied is not kept; no commit fails for that.
//
// Remove is unlink(2) that keeps the file, in one step: a rename into the
// history. RenameOver is rename(2) that keeps the file which it replaces: that
// is linked into the history first, because the rename must remain the one step
// that it is. A crash in between leaves an inode with two names, which the
// opening of the history tells by its count of links, and undoes.
//
// # Appending
//
// A Tail appends records to a file itself, each as a whole:
//
//	journal: begin "append", sync     as before; once for each file, with its length
//	journal: append at, len, crc      as before; recovery cuts nothing off
//	write(file, O_APPEND)             a part of the record may be there, and is cut off
//	                                  the record is there; a power cut may take it
//	fdatasync(file)                   the record is there
//	sync(journal), where it is due    the record is there, whatever its bytes
//	...                               the next record
//	fdatasync(file)                   5 s after the last appender's close
//	journal: done                     nothing to look at
//
// The journal is synced before the first record, so that no recovery takes a
// file for one that nobody appends to. It is not synced for each: what the
// journal has lost, a file of whole lines can do without. So recovery looks at
// the end of the file in two ways:
//
//	|--- known ---|- record -|- record -|- record -|--- no record -----|
//	0             ^size      ^          ^          ^                   ^end of file
//	  not looked     checksum of each; cut at the    cut at the first NUL byte,
//	  at             first that is not whole         then behind the last newline
//
// What a Sync has acknowledged is not cut off: it ends in a newline and has no
// NUL bytes, or the journal was synced too and has its records. (A record that
// follows one which failed at the same place needs its own in the journal as
// well, or that of the failed one would speak against it.)
//
// A record is not whole if the file ends inside it, or if its checksum is wrong
// and a sector of it reads as zeros. A wrong checksum alone is no crash's doing:
// somebody has changed the file around us, and it is left as it is. As long as
// the boot and the mount are those that saw the write (Intent.Epoch), the kernel
// has lost nothing, and only a record that the file ends in is cut off. The bytes
// go to rejected/. A file that was renamed is found by its inode.
//
// Whatever else changes such a file ends the undo record first: Tail.Truncate,
// InPlace and Txn.Commit. A file that is replaced is another one.
//
// # Lazily
//
// A lazy commit waits for no sync, so the new version may be in place before its
// content is on disk. What it takes to go back stands by until then:
//
//	journal: begin "lazy", sync       old version; once for each directory
//	link shadow -> .latchfs-HEX       old version
//	symlink marker .latchfs-HEX       old version; the marker's inode has no name
//	exchange, or link a new name      new version; if that is not whole: the old one
//	rename .latchfs-HEX -> history/   as before; the old version is found there. If
//	                                    it is not kept it stays where it is
//	...                               more commits of the same file, each with a marker
//	fsync(newest), or syncfs          new version, after a second at the latest
//	unlink .latchfs-HEX, the marker   as before
//	journal: done                     at a clean stop, after syncfs
//
// The marker is a symbolic link, whose text says
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
// and the text of a link together with its name; only the content of files is
// not in that order. So after a power cut the marker is there if the exchange is.
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
// later modification time, the removal of the old version from the history. Content
// of more than 1 MiB, in
// another filesystem below the data root, or where there are no symbolic links
// or no exchange is published as Ordered says.
//
// # After a crash
//
// Recover deals with the intents that the journal has pending, before anything
// else touches the data root. What the journal cannot know of after a power cut
// (it is not synced for each intent) is found by Sweep, a walk over the whole
// tree that may run beside sessions. Both remove only names of exactly the form
// .latchfs-<32 hexadecimal digits> that no living shadow has and no pending
// intent needs.
//
// # In the state directory
//
//	.latchfs-HEX               redo shadows, while a commit in place runs
//	history/XX/ID              content of earlier versions: see package history
//	rejected/ID/content        bytes that were refused, or cut off
//	rejected/ID/meta.json      why, and whose they are
//	rejected/.new-ID/          the same, while it is being made
//	ballast-N                  space to give back, so that bytes can be kept on
//	                           a full disk; after it the oldest in rejected/ go
//
// # Durability
//
// Full: the file is synced before the rename and the directory after it, so
// when Publish returns the new version survives a power cut. Ordered: the file
// is synced before the rename; after a power cut the name holds the old or the
// new version, complete. Lazy: the same, after the recovery, and nothing is
// waited for; on btrfs, whose log does not keep the order of names that this takes,
// it is Ordered. InPlace always
// works as full does, for its redo record is worth nothing otherwise. Appended
// records are as durable as their Sync.
package commit
