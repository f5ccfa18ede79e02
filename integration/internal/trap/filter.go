package main

import "golang.org/x/sys/unix"

// changes are the system calls that change files or names whatever their
// arguments are, and those that wait for the disk.
var changes = []uint32{
	unix.SYS_LINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT,
	unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE,
	unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_SYNC, unix.SYS_SYNC_FILE_RANGE,
}

// tmpfile is the bit that O_TMPFILE has beside O_DIRECTORY.
const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY

// cloning are the ioctls that change a file's content or flags.
var cloning = []uint32{unix.FICLONE, unix.FICLONERANGE, unix.FS_IOC_SETFLAGS, 0x401c5820 /* FS_IOC_FSSETXATTR */}

// Offsets in struct seccomp_data; of an argument, its lower half.
const (
	offNr    = 0
	offArgs  = 16
	argBytes = 8
)

// filter asks about changes, about openat where it creates, and about cloning.
func filter() []unix.SockFilter {
	load := func(off uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, off) }
	ask, allow := ret(unix.SECCOMP_RET_USER_NOTIF), ret(unix.SECCOMP_RET_ALLOW)

	prog := []unix.SockFilter{load(offNr)}
	for _, nr := range append(changes, legacyChanges...) {
		prog = append(prog, jump(unix.BPF_JEQ, nr, 0, 1), ask)
	}
	prog = append(prog,
		jump(unix.BPF_JEQ, unix.SYS_OPENAT, 0, 4),
		load(offArgs+2*argBytes),
		jump(unix.BPF_JSET, unix.O_CREAT|tmpfile, 0, 1), ask, allow,
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 1, 0), allow,
		load(offArgs+1*argBytes))
	for _, cmd := range cloning {
		prog = append(prog, jump(unix.BPF_JEQ, cmd, 0, 1), ask)
	}
	return append(prog, allow)
}

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func ret(what uint32) unix.SockFilter { return stmt(unix.BPF_RET|unix.BPF_K, what) }

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
}
