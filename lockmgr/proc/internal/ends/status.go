package ends

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// statusOf tells how a process ended that a pidfd says has, as wait(2) has it, and whether
// that can be seen. While nobody has waited for it its stat shows that; afterwards the
// pidfd alone does.
func (ws *Watches) statusOf(p Process, pidfd uintptr) (status int, known bool) {
	st, err := ws.stat(p.PID)
	if err == nil && st.Start == p.Start && st.Dead() {
		return int(st.ExitCode), true
	}
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, pidfd, pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if e != 0 || info.mask&pidfdInfoExit == 0 {
		return 0, false
	}
	return int(info.exitCode), true
}
