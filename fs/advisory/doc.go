// Package advisory keeps the locks that programs take by themselves: flock(2), fcntl(2) and
// open file description locks. They stand in the lock table beside those of the sessions:
// a file that is locked with LOCK_EX keeps the sessions of other owners out, and a session
// lets the flock of another owner wait.
//
// # Who has a lock
//
// A lock belongs to a Client. The room remembers which client has locked through which
// open file, and by that what the end of the file ends.
//
//	asked for by             class  client                        ends with
//	flock(2)                 Flock  the open file                 its last descriptor
//	fcntl(2), F_SETLK        Posix  the process                   its close of any descriptor
//	                                                              of the inode, or its death
//	fcntl(2), F_OFD_SETLK    Posix  the open file, by the number  its last descriptor
//	                                that the kernel gives it
//
// The open file of a flock goes by File.ID: the kernel's number of an open file is given to
// another one before RELEASE is sent.
//
// The owner of a lock is the process that asks. Only a flock may have another owner: it is
// a lock of the open file, so where flock(1) was handed a descriptor (exec 3<f; flock 3)
// the lock is the shell's. Its owner is the eldest of the caller's ancestors in a row who
// have the file open.
//
// # What it is on
//
// Key is what the lock table calls the file, by the first of these that holds:
//
//	a flock of a lock file that stands for a file   the key of that file
//	a session writes the file                       the name for which it writes
//	the file has no name, or is a directory         the inode
//	the file is live                                the inode that has its name
//	the file has several names                      the inode
//	else                                            its name
//
// Live files have no sessions, and are locked as on a plain directory. Of all others the
// name is locked, so that a file that is replaced under its lock stays locked. A flock is on
// what the policy makes the file share with others; ranges of bytes are of the file alone.
//
// A file may get another name while a lock on it is asked for, waited for or held. Lock asks
// again until the lock is under the key that the file has when it is granted. The lock table
// renames the keys of the locks that follow their file, so the room remembers the locks
// themselves: what a client unlocks, and what is ended for it, is what it has under the
// file's key of today and under those of its locks.
//
// A file that is renamed over the one which a client has locked is locked with its name. Where
// the same process, or a descendant, then locks the new file through a descriptor of that, the
// older lock ends: otherwise the process would wait for itself, which it would not on a plain
// directory.
//
// # Whom it binds
//
// A lock is weak, and binds those alone who lock, unless its client may keep others out: it
// may write the file, or was given a descriptor to write it. A flock that stands for another
// file is weak, too, unless the client may claim that file.
//
// # When it ends
//
//	Unlock    the program says so
//	Closed    FLUSH: a process has closed a descriptor, and its byte ranges on the inode end
//	Released  RELEASE: the last descriptor is closed, and what was locked through it ends
//	          unless its client has it through another open file, too
//
// The kernel need not tell of the closes of a file that was opened before anybody locked
// bytes of its inode (File.IsTold). Where a process locks through such a file its death is
// watched in place of its close.
//
// RELEASE comes after close(2) has returned. A program that only tries for a lock, which
// another one has just given up, may come before it: Leaving says whether the holders have
// gone, and what tells of the end of their locks.
//
// # Mutexes
//
// Room.ends keeps the end of a client's locks apart from the moment in which the client is
// about to lock through another open file: the room looks at files, and so calls File, with
// it. Room.mu guards what the room remembers; with it the lock table alone is called.
// Nobody waits for a lock with either.
package advisory
