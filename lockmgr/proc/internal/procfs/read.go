package procfs

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// FirstRead is how many bytes of a file are read at once, at first.
const FirstRead = 4096

// buffers hold one read of a small file.
var buffers = sync.Pool{New: func() any { return new([FirstRead]byte) }}

// OpenFile opens a file or directory with the flags of open(2), which are close-on-exec.
func (r *Root) OpenFile(path string, flags int) (fd int, err error) {
	return OpenAt(r.dir, path, flags)
}

// WithFile reads a file that the kernel renders in one piece and hands its
// content to use, which must not keep it. The error is that of use, too.
func (r *Root) WithFile(path string, use func([]byte) error) error {
	fd, err := OpenAt(r.dir, path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return WithContent(fd, use)
}

// WithContent is WithFile for a file that was just opened.
func WithContent(fd int, use func([]byte) error) error {
	return WithStart(fd, func(start []byte) error {
		if len(start) < FirstRead {
			return use(start)
		}
		content, err := ReadRest(fd, start, math.MaxInt)
		if err != nil {
			return err
		}
		return use(content)
	})
}

// WithStart is WithContent for what one read gives, up to FirstRead bytes.
func WithStart(fd int, use func([]byte) error) error {
	buf := buffers.Get().(*[FirstRead]byte)
	defer buffers.Put(buf)
	n, err := read(fd, buf[:])
	if err != nil {
		return err
	}
	return use(buf[:n])
}

// Reread is WithStart for a file that was read before: it is rendered anew. read tells
// whether use was called; err is that of the look, or that of use.
func Reread(fd int, use func([]byte) error) (read bool, err error) {
	buf := buffers.Get().(*[FirstRead]byte)
	defer buffers.Put(buf)
	n, err := pread(fd, buf[:])
	if err != nil {
		return false, err
	}
	return true, use(buf[:n])
}

// ReadAll reads a file of any length.
func (r *Root) ReadAll(path string) ([]byte, error) { return r.ReadUpTo(path, math.MaxInt) }

// ReadUpTo reads a file, but no more bytes of it than the limit.
func (r *Root) ReadUpTo(path string, limit int) ([]byte, error) {
	fd, err := OpenAt(r.dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return ReadRest(fd, nil, limit)
}

// ReadRest reads until the end of the file or the limit in bytes, and returns it after
// what is there already, in a slice of its own.
func ReadRest(fd int, start []byte, limit int) ([]byte, error) {
	content := append(make([]byte, 0, 4*len(start)+FirstRead), start...)
	for len(content) < limit {
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
		n, err := read(fd, content[len(content):min(cap(content), limit)])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return content, nil
		}
		content = content[:len(content)+n]
	}
	return content, nil
}

// Link reads a symbolic link.
func (r *Root) Link(path string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(r.dir, path, buf[:])
	if err != nil {
		return "", Gone(err)
	}
	return string(buf[:n]), nil
}

// OpenAt is OpenFile below an open directory.
func OpenAt(dir int, path string, flags int) (fd int, err error) {
	for {
		fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, Gone(err)
		}
	}
}

func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return max(n, 0), Gone(err)
		}
	}
}

func pread(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err != unix.EINTR {
			return max(n, 0), Gone(err)
		}
	}
}

// Gone maps the ways in which /proc says that a process has gone to ErrGone, and leaves
// any other error as it is.
func Gone(err error) error {
	if err == unix.ENOENT || err == unix.ESRCH {
		return ErrGone
	}
	return err
}

// IgnoreGone is no error for ErrGone, and any other error as it is.
func IgnoreGone(err error) error {
	if err == ErrGone {
		return nil
	}
	return err
}
