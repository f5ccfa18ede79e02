package statedir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Name is the name of the state directory at the data root.
const Name = ".latchfs"

// ErrForeign is the error for what somebody else has made, or could change.
var ErrForeign = errors.New("not latchfs's own")

// Own opens the state directory of a data root, which it makes if there is none. root
// may be an O_PATH descriptor. The errors are those of Open.
func Own(root int) (*os.File, error) {
	if err := unix.Mkdirat(root, Name, 0o700); err != nil && err != unix.EEXIST {
		return nil, os.NewSyscallError("mkdirat", err)
	}
	return Open(root)
}

// Open opens the state directory of a data root for this program's use. The error is
// unix.ENOENT if there is none, and ErrForeign if it is not this user's alone.
func Open(root int) (*os.File, error) {
	dir, err := Peek(root)
	if err != nil {
		return nil, err
	}
	if _, err := check(int(dir.Fd())); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// Peek is Open for a look, whoever may have made the directory: nothing that it says
// is to be believed.
func Peek(root int) (*os.File, error) {
	fd, err := openat(root, Name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.ELOOP || err == unix.ENOTDIR {
		return nil, fmt.Errorf("%w: it is not a directory", ErrForeign)
	}
	if err != nil {
		return nil, os.NewSyscallError("openat2", err)
	}
	return os.NewFile(uintptr(fd), Name), nil
}

// OpenDir opens the directory name in dir for reading. The errors are those of
// OpenFile.
func OpenDir(dir int, name string) (int, error) {
	return OpenFile(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// OpenFile opens the file name in dir, or makes it with mode 0600. It follows no link
// and does not wait for the other end of a FIFO. The error is ErrForeign for what is
// not a regular file (with O_DIRECTORY: a directory) that belongs to this user and
// that nobody else may write to; for writing it must have no other name.
func OpenFile(dir int, name string, flags int) (int, error) {
	fd, err := openat(dir, name, flags&^unix.O_TRUNC, 0o600)
	if err == unix.ENXIO || err == unix.ELOOP {
		return -1, fmt.Errorf("%w: it is not a regular file", ErrForeign)
	}
	if err != nil {
		return -1, err
	}
	st, err := check(fd)
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY
	switch {
	case err != nil:
	case flags&unix.O_DIRECTORY == 0 && st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = fmt.Errorf("%w: it is not a regular file", ErrForeign)
	case writes && st.Nlink > 1:
		err = fmt.Errorf("%w: the file has another name", ErrForeign)
	case flags&unix.O_TRUNC != 0:
		err = unix.Ftruncate(fd, 0)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// check reports ErrForeign for what this user does not own alone.
func check(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return st, os.NewSyscallError("fstat", err)
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return st, fmt.Errorf("%w: it belongs to user %d, and latchfs runs as user %d", ErrForeign, st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return st, fmt.Errorf("%w: its mode %04o lets others write to it", ErrForeign, st.Mode&0o7777)
	}
	return st, nil
}

// openat opens name, a single name, through no link of any kind.
func openat(dir int, name string, flags int, mode uint32) (int, error) {
	how := &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	for {
		fd, err := unix.Openat2(dir, name, how)
		// openat2(2): EAGAIN when a rename elsewhere got in between.
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}
