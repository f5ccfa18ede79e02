package disk

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CopyContent makes to, which is empty or a hole, a copy of from, which has size
// bytes.
func (s *Disk) CopyContent(as Runner, from, to int, size int64) error {
	if size == 0 {
		return nil
	}
	err := s.Do("clone", func() error { return as.Run(func() error { return unix.IoctlFileClone(to, from) }) })
	if err == nil || !CannotClone(err) {
		return err
	}
	if err := s.Do("truncate", func() error { return unix.Ftruncate(to, size) }); err != nil {
		return err
	}
	return EachData(from, size, func(start, end int64) error {
		return s.Do("copy", func() error { return as.Run(func() error { return copyRange(from, to, start, end) }) })
	})
}

// Reserve sees to it that target has space for all data of shadow, without a
// change to its content, so that overwrite does not run out of space half-way.
// A filesystem that copies on write cannot promise that; there overwrite clones.
func (s *Disk) Reserve(as Runner, shadow, target int) error {
	var st unix.Stat_t
	if err := unix.Fstat(shadow, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	return EachData(shadow, st.Size, func(start, end int64) error {
		// XFS wants free blocks for the whole of a range, whatever is there already.
		return eachHole(target, start, end, func(start, end int64) error {
			err := s.Do("fallocate", func() error {
				return as.Run(func() error { return unix.Fallocate(target, unix.FALLOC_FL_KEEP_SIZE, start, end-start) })
			})
			if errors.Is(err, unix.EOPNOTSUPP) {
				return nil
			}
			return err
		})
	})
}

// eachHole runs do for the parts of a range of fd that have no data, also behind its end.
func eachHole(fd int, start, end int64, do func(start, end int64) error) error {
	for start < end {
		hole, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			return do(start, end) // it is behind the end, or nobody can tell
		}
		if hole >= end {
			return nil
		}
		data, err := unix.Seek(fd, hole, unix.SEEK_DATA)
		if err != nil || data > end {
			data = end
		}
		if err := do(hole, data); err != nil {
			return err
		}
		start = data
	}
	return nil
}

// Overwrite replaces the content of target, whatever it is, by the size bytes
// of shadow. Where shadow has holes target gets holes.
func (s *Disk) Overwrite(shadow, target int, size int64) error {
	if err := s.Do("clone", func() error { return unix.IoctlFileClone(target, shadow) }); err != nil {
		if !CannotClone(err) {
			return err
		}
		at := int64(0)
		err := EachData(shadow, size, func(start, end int64) error {
			if err := s.punch(target, at, start); err != nil {
				return err
			}
			at = end
			return s.Do("copy", func() error { return copyRange(shadow, target, start, end) })
		})
		if err == nil {
			err = s.punch(target, at, size)
		}
		if err != nil {
			return err
		}
	}
	return s.Do("truncate", func() error { return unix.Ftruncate(target, size) })
}

// punch makes [start,end) of fd read as zeros, without making it longer.
func (s *Disk) punch(fd int, start, end int64) error {
	if start >= end {
		return nil
	}
	err := s.Do("punch", func() error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, start, end-start)
	})
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	zeros := make([]byte, min(max(st.Size-start, 0), end-start, 1<<20))
	for end = min(end, st.Size); start < end; start += int64(len(zeros)) {
		zeros = zeros[:min(int64(len(zeros)), end-start)]
		if err := s.Do("copy", func() error { return WriteAll(fd, zeros, start) }); err != nil {
			return err
		}
	}
	return nil
}

// CannotClone reports whether err says that there are no reflinks here, rather
// than that one has failed.
func CannotClone(err error) bool {
	for _, e := range []error{unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// EachData calls fn for each stretch of data, rather than hole, of fd.
func EachData(fd int, size int64, fn func(start, end int64) error) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // a hole up to the end
		}
		if err != nil {
			return fn(at, size) // a filesystem that cannot tell
		}
		end, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			end = size
		}
		if start, end = min(start, size), min(end, size); start < end {
			if err := fn(start, end); err != nil {
				return err
			}
		}
		at = max(end, start+1)
	}
	return nil
}

// copyRange copies the bytes [start,end) to the same place.
func copyRange(from, to int, start, end int64) error {
	in, out := start, start
	for in < end {
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-in, 1<<30)), 0)
		switch {
		case err == unix.EINTR:
		case err != nil && in == start && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.EIO):
			return CopyBytes(from, to, start, end)
		case err != nil:
			return err
		case n == 0:
			return nil // from has become shorter
		}
	}
	return nil
}

// CopyBytes is copyRange for filesystems between which the kernel does not copy.
func CopyBytes(from, to int, start, end int64) error {
	buf := make([]byte, min(end-start, 1<<20))
	for start < end {
		n, err := unix.Pread(from, buf[:min(end-start, int64(len(buf)))], start)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := WriteAll(to, buf[:n], start); err != nil {
			return err
		}
		start += int64(n)
	}
	return nil
}

// WriteAll writes b at the offset at, all of it unless there is an error.
func WriteAll(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}
