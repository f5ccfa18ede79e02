package validate

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxCopy is the size in bytes up to which a command gets a copy of the content
// in memory; longer content comes through a pipe.
const maxCopy = 8 << 20

// contentFor opens the content of f, which has that size, for a process that runs
// as c: a sealed copy in memory, which can be mapped, rewound and opened again, or
// the end of a pipe. Neither leads to the file. fill has to be called, and returns
// when the process has got all that it wants.
func contentFor(f io.ReaderAt, size int64, c *Credential) (in *os.File, fill func(), err error) {
	if size <= maxCopy {
		in, err = sealedCopy(f, size)
		return in, func() {}, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if c != nil { // so that /dev/stdin can be opened
		if err := in.Chown(int(c.UID), int(c.GID)); err != nil {
			return nil, nil, errors.Join(err, in.Close(), to.Close())
		}
	}
	return in, func() {
		defer to.Close()
		_, _ = io.Copy(to, io.NewSectionReader(f, 0, size)) // it may have read enough
	}, nil
}

// sealedCopy copies the content into memory where nobody can change it.
func sealedCopy(f io.ReaderAt, size int64) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("content", flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // Linux before 6.3
		fd, err = unix.MemfdCreate("content", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := os.NewFile(uintptr(fd), "content")
	n, err := io.Copy(m, io.NewSectionReader(f, 0, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		_, err = m.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = m.Chmod(0o444)
	}
	if err == nil {
		_, err = unix.FcntlInt(m.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}
