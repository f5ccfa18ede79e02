package main

import "golang.org/x/sys/unix"

// legacyChanges are the calls of older times, which other architectures lack.
var legacyChanges = []uint32{
	unix.SYS_LINK, unix.SYS_RENAME, unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_MKDIR, unix.SYS_RMDIR,
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN,
}
