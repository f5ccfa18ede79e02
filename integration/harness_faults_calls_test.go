package integration

import "golang.org/x/sys/unix"

// faultCalls are the names of the system calls that internal/trap asks about.
var faultCalls = map[int]string{
	unix.SYS_LINKAT: "linkat", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_UNLINKAT: "unlinkat", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_MKNODAT: "mknodat",
	unix.SYS_OPENAT: "openat", unix.SYS_IOCTL: "ioctl",
	unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev", unix.SYS_PWRITE64: "pwrite", unix.SYS_PWRITEV: "pwritev",
	unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_SENDFILE: "sendfile", unix.SYS_SPLICE: "splice",
	unix.SYS_TRUNCATE: "truncate", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FALLOCATE: "fallocate",
	unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHMODAT2: "fchmodat2",
	unix.SYS_FCHOWN: "fchown", unix.SYS_FCHOWNAT: "fchownat", unix.SYS_UTIMENSAT: "utimensat",
	unix.SYS_SETXATTR: "setxattr", unix.SYS_LSETXATTR: "lsetxattr", unix.SYS_FSETXATTR: "fsetxattr",
	unix.SYS_REMOVEXATTR: "removexattr", unix.SYS_LREMOVEXATTR: "lremovexattr", unix.SYS_FREMOVEXATTR: "fremovexattr",
	unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_SYNCFS: "syncfs", unix.SYS_SYNC: "sync",
	unix.SYS_SYNC_FILE_RANGE: "sync_file_range",
}

// byPath are those whose first argument is a path.
var byPath = map[int]bool{
	unix.SYS_TRUNCATE: true, unix.SYS_SYNC: true,
	unix.SYS_SETXATTR: true, unix.SYS_LSETXATTR: true, unix.SYS_REMOVEXATTR: true, unix.SYS_LREMOVEXATTR: true,
}
