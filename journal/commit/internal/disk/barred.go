package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openOwn opens the file name in dir, also one that its owner may not open, if that is us: an
// owner may change the mode, which is put back at once. What a crash has left must not wait for
// the user to do that.
func openOwn(dir int, name string, access int) (int, error) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, barred := unix.Openat(dir, name, access|flags, 0)
	if barred != unix.EACCES {
		return fd, barred
	}
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, barred
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if unix.Fstat(at, &st) != nil || !mayUnbar(&st) || unix.Chmod(procFD(at), st.Mode&0o7777|0o600) != nil {
		return -1, barred
	}
	fd, err = unix.Open(procFD(at), access|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if again := unix.Chmod(procFD(at), st.Mode&0o7777); again != nil {
		if err == nil {
			unix.Close(fd)
		}
		return -1, errors.Join(err, os.NewSyscallError("chmod", again))
	}
	return fd, err
}

// mayUnbar reports whether the mode of a file can be changed and put back. The setgid bit could
// be lost for good.
func mayUnbar(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Mode&unix.S_ISGID == 0
}
