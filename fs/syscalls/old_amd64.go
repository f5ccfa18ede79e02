package syscalls

import "golang.org/x/sys/unix"

// oldStats are the numbers of the system calls by which older programs ask for
// attributes.
var oldStats = []int{unix.SYS_STAT, unix.SYS_LSTAT}

// oldOpens are those by which they open files, with the place of the flags
// among their arguments; -1 stands for a call that always creates.
var oldOpens = map[int]int{unix.SYS_OPEN: 1, unix.SYS_CREAT: -1}

// oldChowns are those by which they change a file's owner.
var oldChowns = []int{unix.SYS_CHOWN, unix.SYS_LCHOWN}

// oldSetters are those by which they change other attributes of the file at a path.
var oldSetters = []int{unix.SYS_CHMOD, unix.SYS_UTIME, unix.SYS_UTIMES}

// oldUnlinks are those by which they remove the names of files.
var oldUnlinks = []int{unix.SYS_UNLINK}

// oldUtimes are those by which they set the times of files.
var oldUtimes = []int{unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
