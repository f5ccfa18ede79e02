package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// End is how a process ended.
type End struct {
	// Known: it could be seen. That fails for another user's process without
	// CAP_SYS_PTRACE, and for one that was waited for at once on a kernel before
	// 6.15.
	Known bool
	// Status is as wait(2) has it: the lower seven bits are the signal that killed
	// the process, the second byte is its exit code.
	Status int
}

// Failed reports whether the process was killed, or did not exit with 0.
func (e End) Failed() bool { return e.Known && e.Status != 0 }

// pidfdInfo is struct pidfd_info of include/uapi/linux/pidfd.h, in its first
// version.
type pidfdInfo struct {
	mask     uint64
	cgroup   uint64
	ids      [11]uint32
	exitCode int32
}

const (
	pidfdInfoExit = 1 << 3     // PIDFD_INFO_EXIT, since Linux 6.15
	pidfdGetInfo  = 0xc040ff0b // PIDFD_GET_INFO, for a structure of 64 bytes
)

// endOf tells how a process ended that a pidfd says has. While nobody has waited
// for it its stat shows that; afterwards the pidfd alone does.
func (r *Reader) endOf(o lockmgr.Owner, pidfd uintptr) End {
	st, err := r.statOf(o.PID)
	if err == nil && st.Start == o.Start && st.Dead() {
		return End{Known: true, Status: int(st.ExitCode)}
	}
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, pidfd, pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if e != 0 || info.mask&pidfdInfoExit == 0 {
		return End{}
	}
	return End{Known: true, Status: int(info.exitCode)}
}
