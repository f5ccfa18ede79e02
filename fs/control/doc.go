// Package control is the language of `.locks/control`, the file through which
// programs take locks without opening what they lock. It has the requests and
// the replies and nothing else: no I/O, no lock table.
//
// # A conversation
//
// Whoever opens the file for reading and writing has a conversation of its own.
// Each line written is a request, each line read a reply, both one JSON object.
// A read waits until there is a reply. By hand, in bash:
//
//	exec 9<>/srv/data/.locks/control
//	echo '{"op":"acquire","paths":["tasks.json"],"wait":"5s"}' >&9
//	read -r reply <&9; [[ $reply == '{"ok":true'* ]] || exit 8
//	... tasks.json is ours ...
//	exec 9>&-
//
// Replies begin with "ok". They come in the order in which the requests are done:
// one that waits does not keep later ones waiting, so who has several under way
// gives them an "id", which the reply repeats.
//
// # Locks
//
// A lock belongs to the conversation and to the process that opened it, with its
// heirs: descendants started after the lock was asked for, and whoever inherits
// the descriptor. It ends with a release, or when the last descriptor is closed,
// as the kernel does for a process that dies. With "holder", the id of the
// requester's process or of an ancestor, it belongs to that process instead:
// it outlives the conversation and ends with a release or with the process.
//
// Several files, trees and names in one request are taken all or none: up to 1,000,
// and 256 KiB of names. What is locked must be one's to write (of a shared lock on
// a file, to read); a link, or a name that is no file yet, is its directory's. A
// tree covers names: a file in it that has another name outside can be changed
// under that one.
//
//	paths   files, or names of files to be; relative to the mount's root
//	trees   directories, each with everything below it
//	names   locks that stand for no file: [a-z0-9_-], 1 to 128 characters,
//	        no '-' or '_' at either end (requirement T2)
//
// # Requests
//
//	op         what it does                          fields
//	acquire    takes a lock                          paths trees names mode wait ttl
//	                                                 operation actor holder steal txn
//	release    gives locks back                      lock, or paths trees names, or all; holder
//	check      says who holds and who is in the way  paths trees names
//	list       lists what is held                    mine holder
//	steal      ends locks whose lease has expired    paths trees names force
//	commit     publishes a transaction               lock
//	rollback   takes a transaction back              lock reason
//	label      gives a process a label for people    actor holder
//	forget     erases what is kept of a file         paths or paths_base64 (one) version
//	pin        keeps a version until the end of      paths or paths_base64 (one) version
//	           the conversation
//	unpin      ends that                             paths or paths_base64 (one) version
//
// A release of what is not held is no error: the reply has a "warning". One of
// another's lock is refused.
//
// A version that is pinned makes no room for newer ones, neither by the bounds of the history
// nor on a full disk: who puts many back would push out the next ones. It may be that of a
// file which has another name now. Whoever may read it may pin it; what is erased goes.
//
// # Transactions
//
// An acquire with "txn": true begins a transaction: whatever the owner and its heirs
// write in files that are not live, create, remove and rename from then on is
// staged, shown to them alone, and locked. "commit" publishes all of it, and is
// answered when it is on disk; if any of it is refused, none is published and what
// was written is kept under rejected. "rollback", a release, the end of the
// conversation and of its owner do the latter. The lock itself stays until it is
// released. Within a transaction there are no hard links (EPERM), and only files
// are renamed (EXDEV: mv copies what is none).
//
// # Replies
//
// A refusal has "ok": false, an "error" from the list below, and a "message" for
// people. What users other than root ask for has bounds: a lease is at most the
// policy's, a holder is a process of the same user. Where somebody is in the way it has the fields that requirements T5 and
// T7 name.
//
//	lock_blocked  somebody holds what was asked for, and the wait is over
//	lock_stale    the same, and the lease of whoever holds it has expired
//	deadlock      the wait would never end
//	fenced        the requester's lock was stolen
//	not_holder    the lock is another's
//	no_such_lock  there is no lock with this id
//	invalid       the request makes no sense
//	not_allowed   the requester may not write what it asks to lock
//	not_kept      there is no such version, or it has made room for newer ones
//	transaction_refused  nothing of the transaction was published
//	no_such_version  of forget: there is no such earlier version
//	still_kept    of forget: nothing was erased, and something is kept that it does not reach
//	unavailable   latchfs is shutting down, or cannot do that
package control
