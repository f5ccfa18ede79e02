// Command trap runs a program, in its own place, in such a way that somebody
// else is asked before each of its system calls that change a filesystem or sync
// one: that one may let it happen, have it fail, or kill the program first.
//
//	trap UID PROGRAM ARG...    runs PROGRAM as user and group UID
//
// The questions come to whoever has the other end of the socket that is
// descriptor 3, which is sent a seccomp listener (seccomp_unotify(2)). Exit
// status 77 says that this kernel has none.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	socket      = 3
	unsupported = 77
)

func main() {
	err := run(os.Args[1:])
	fmt.Fprintln(os.Stderr, "trap:", err)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		os.Exit(unsupported)
	}
	os.Exit(1)
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: trap UID PROGRAM ARG")
	}
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	// The filter and the user are this thread's, and execve keeps this thread's.
	runtime.LockOSThread()
	listener, err := install(filter())
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return err
	}
	unix.CloseOnExec(socket)
	unix.CloseOnExec(listener)
	if uid != os.Getuid() {
		if err := become(uid); err != nil {
			return err
		}
	}
	return syscall.Exec(args[1], args[1:], os.Environ())
}

// become makes this thread another user's. That clears the signal which the
// parent's death is to bring, so it is asked for again.
func become(uid int) error {
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, 0, 0, 0},
		{unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)},
		{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// install puts the filter over this thread and returns its listener.
func install(program []unix.SockFilter) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// A signal, such as those with which the Go runtime preempts, does not
	// interrupt a call that somebody has been asked about: it would be asked twice.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
