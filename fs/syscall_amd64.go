package fs

import "golang.org/x/sys/unix"

// oldStats are the numbers of the system calls by which older programs ask for
// attributes.
var oldStats = []int{unix.SYS_STAT, unix.SYS_LSTAT}
