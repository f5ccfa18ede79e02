// Package privileges takes from the whole process, for good, what root's daemon can do
// and need not: a mistake in it, or in what it reads, is worth less then.
package privileges

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the capabilities (capabilities(7)) that a daemon needs once it has started.
// What raises limits and opens sockets is done by then.
var kept = []uint{
	unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETFCAP, // versions look like the files that they replace
	unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, // the kernel has checked the caller's permissions
	unix.CAP_SETUID, unix.CAP_SETGID, // work that is done as the caller; validating commands
	unix.CAP_MKNOD, unix.CAP_LINUX_IMMUTABLE, // what users may do who have these
	unix.CAP_SYS_ADMIN,  // mounting, passthrough, trusted attributes
	unix.CAP_SYS_PTRACE, // what others' processes have open, and their environment
	unix.CAP_KILL,       // validating commands that take too long
}

// ErrUnsupported is the error for a program that was built with cgo, of whose threads
// not all can be reached.
var ErrUnsupported = errors.New("not in a program that was built with cgo")

// Drop takes all capabilities but those needed from every thread of the process, and
// sees to it that none comes back: neither by the user id 0, nor by a setuid program
// (no_new_privs). To a process that is not root's it does nothing: it has no
// capabilities, and needs fusermount3's.
func Drop() error {
	if os.Geteuid() != 0 {
		return nil
	}
	var keep [2]uint32
	for _, c := range kept {
		keep[c/32] |= 1 << (c % 32)
	}
	if err := everywhere(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	for c := uint(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep[c/32]&(1<<(c%32)) != 0 {
			continue
		}
		err := everywhere(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c))
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			break // an older kernel knows no more; without CAP_SETPCAP the set is another's to choose
		}
		if err != nil {
			return fmt.Errorf("bounding set of capabilities: %w", err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range data {
		data[i].Permitted &= keep[i]
		data[i].Effective &= keep[i]
		data[i].Inheritable = 0
	}
	hdr.Pid = 0
	err := everywhere(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])))
	runtime.KeepAlive(&data)
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// everywhere makes a system call on every thread of the process.
//
//go:uintptrescapes
func everywhere(call, a1, a2 uintptr) error {
	_, _, e := syscall.AllThreadsSyscall6(call, a1, a2, 0, 0, 0, 0)
	if e == unix.ENOTSUP {
		return ErrUnsupported
	}
	if e != 0 {
		return e
	}
	return nil
}
