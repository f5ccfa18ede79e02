// Package commit is the mechanics of a session's file: how the private copy
// that a writer works on (the shadow) is made, how it becomes the file, and how
// whatever a crash leaves of that is put right.
//
// The package works on directory descriptors and single names only, never on
// paths, and creates files nowhere but in the directory of the target and in
// the state directory. It takes no locks on files and asks nobody: whether a
// commit is due and allowed was decided before it is called.
//
// # The rooms
//
// This package has the shadow, what becomes of it, and transactions. What it stands on
// are packages of their own, whose comments are their specifications. Each imports only
// what is below it, and package journal and its history:
//
//	internal/disk      steps, names, versions, copies, walks
//	internal/reserved  names that no user has, with their intents -> disk
//	internal/keep      old content into the history -> disk
//	internal/rejected  refused bytes aside -> disk
//	internal/lazy      commits that wait for no sync -> rejected, disk
//	internal/tail      records that are appended -> lazy, rejected, disk
//	internal/recovery  what a crash has left -> tail, lazy, keep, rejected, disk
//	commit             Store, Shadow, Publish, InPlace, Reject, Txn -> all of these
//	fsck               a data root that nobody uses -> recovery, lazy, rejected, disk
//
// Where this comment says recovery, the package of that name does it. It is told by the
// journal's intents alone what the others have begun: nothing of their state reaches it.
//
// # Mutex order
//
// This package has none: a Shadow and a Txn belong to one goroutine at a time. Those
// below are taken in this order; the comments of their packages say what each guards:
//
//	recovery.Recoverer.recovering
//	tail.Tail.syncMu, tail.Tail.mu, tail.Set.mu
//	lazy.Set.settling, lazy.Set.mu
//	rejected.Store.listMu, rejected.Store.mu
//	disk.Disk.mu
//	those of package journal
//
// # The life of a shadow
//
//	NewShadow   an unnamed file (O_TMPFILE) in the target's directory
//	   |        with the metadata of the file that it is to replace
//	Fill        content of the base version: reflink, else a sparse copy
//	   |
//	Mark        from here on Dirty tells whether anything was written
//	   |
//	Secure      at the first fsync of its writer; Unsecure takes it back
//	   |
//	Publish | InPlace | Reject      the shadow becomes the file, or is written
//	   |                            into it, or is kept aside
//	Discard     always, at the end: gives back what is left
//
// An unnamed file leaves nothing behind in a crash. Where the filesystem has
// none, the shadow has a reserved name from the beginning and an intent in the
// journal that says so.
//
// # Syncing
//
// What fsync has acknowledged must outlive the daemon. So the first one gives the shadow a
// name, with an intent that says that it is synced:
//
//	journal: begin "shadow", synced   as before; the name is not there
//	write back shadow and journal     as before
//	link shadow -> .latchfs-HEX       recovery keeps the bytes; there may be no need
//	fsync(shadow)                     acknowledged; recovery keeps the bytes
//
// Filesystems that keep the order (see Publishing) make the changes of names durable in
// their order and with the file to which they belong, so that the name is not on disk before
// the bytes and the intent, and not after the fsync. Elsewhere the shadow is synced under its
// name before the intent says so, and then the journal and the directory.
//
// Recovery gives a new file its own name, if that is free and nothing else had to be asked
// (validators, a transaction, on-kill "rollback"); other bytes go to rejected/. The
// directory is looked for if it was moved. Publish, InPlace, Put and Reject replace the
// intent by theirs, which says "synced", too, or end it when what they have done is on
// disk, or comes there first. A new file that is published from that name needs no sync of
// the directory: wherever a power cut stops the rename, the file comes out under its name.
//
// So FsyncDir has nothing to wait for either, if that rename is all that was done to the
// directory since the link: the fsync has made durable what came before. The directory's
// change time tells, where no two changes of it are alike (package disk, changes.go). It is
// looked at after the link, on both sides of the rename, and in FsyncDir; what others do
// through the daemon during the rename is counted. Names that were taken away in the directory
// before the link are gone on the disk, too, once the shadow is synced.
//
// # Publishing
//
// Over an existing file, with a crash possible after every step:
//
//	write back and wait, or fsync     old version, no trace
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
// The first step is an fsync(shadow) unless the disk keeps the order of names and bytes
// (package disk, KeepsOrder: ext4 with a journal of its own and data=ordered, XFS). There
// the bytes are written back and waited for; their blocks and the size are in the
// filesystem's journal then before the exchange is, and with it at the latest, and the
// device has emptied its cache before the journal's commit counts. So the fsync of the
// directory is the one commit that the save waits for.
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
//	sum up the target's sectors       old version
//	copy target -> history/           old version, if it is to be kept
//	journal: begin "inplace"          old version
//	link shadow -> .latchfs-HEX       old version, unless the intent is on disk:
//	fsync(directory), sync(journal)     recovery then does the copy, all of it
//	copy shadow -> target             recovery repeats the copy from the start, and
//	                                    keeps what neither version has
//	fsync(target)                     new version
//	unlink .latchfs-HEX               new version; recovery finds nothing to do
//	journal: done, sync
//
// A redo shadow lies beside its target, or in the state directory where the
// target's may not be written. Target and shadow are found again by inode and
// name if their directory was renamed before the recovery.
//
// Between a crash and the recovery somebody may write the target outside the mount. The
// intent has a checksum of each sector that it held, if those are not too many, so that
// recovery knows what is neither of the old version nor of the new one. Where nothing of
// the new one is there, the target stays as it is found and the shadow goes to rejected/,
// as in a conflict; else what is found goes there, and the copy is done: half of one is
// no version. Of a target of more than 2 MiB nobody can tell, and of half a copy that is
// kept, too.
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
// A file that has got one of the names since the decision, outside the mount, goes to
// rejected/ when recovery carries that out, unless it is another user's in a sticky
// directory: then it stays, as what is no file does, and the shadow goes there.
//
// What is made (directories, symbolic links and the like, which have no private
// copy) exists from then on; whoever uses the package hides it meanwhile.
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
// Full: the file is synced, or where the disk keeps the order written back, before the
// rename and the directory is synced after it, so when Publish returns the new version
// survives a power cut. Ordered: the same without the sync of the directory; after a power cut the name holds the old or the
// new version, complete. Lazy: the same, after the recovery, and nothing is
// waited for; on btrfs, whose log does not keep the order of names that this takes,
// it is Ordered. Auto: Full for what replaces a version, or takes a name that a file has
// lost and the disk still gives to it; what is new is published as Lazy says, or where that
// cannot be as Ordered, and its name is on disk within a second. A commit that is Full
// settles first what is new in its directory; where the disk keeps the order the bytes of
// that are written back, and what the commit waits for makes them durable, too. InPlace always
// works as full does, for its redo record is worth nothing otherwise. Appended
// records are as durable as their Sync, and on disk within a second after RecordsSoon.
//
// What waits for the disk in the background and cannot be put there is told twice: to
// SetLost's function at once, and to the next who syncs that file or directory, or commits
// something Full in the directory.
package commit
