package journal

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

const (
	segmentPrefix = "journal-"
	newSegment    = "journal.new"
)

// segment is the file that records are appended to.
type segment struct {
	name   string
	number uint64
	file   *os.File
	base   int64  // length of what it began with
	size   int64  // length of the intact part
	synced int64  // how much of it is known to be on disk
	buf    []byte // scratch space, as is payload

	payload []byte
}

// append writes one record at the end. On an error the end stays where it was.
func (s *segment) append(r record) error {
	payload := r.appendTo(s.payload[:0])
	s.payload = payload
	if len(payload) > maxPayload {
		return fmt.Errorf("journal: record of %d bytes is too long", len(payload))
	}
	s.buf = appendFrame(s.buf[:0], s.synced, payload)
	if _, err := s.file.WriteAt(s.buf, s.size); err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), s.file.Truncate(s.size))
	}
	s.size += int64(len(s.buf))
	return nil
}

// rotateLocked puts a new segment in the place of the current one.
func (j *Journal) rotateLocked() error {
	next, err := j.createSegment(j.seg.number + 1)
	if err != nil {
		return fmt.Errorf("new journal segment: %w", err)
	}
	fd := int(j.dir.Fd())
	if err := unix.Renameat(fd, newSegment, fd, next.name); err != nil {
		next.file.Close() // on a full disk a rename, too, may find no room for the name
		err = errors.Join(&os.PathError{Op: "rename", Path: newSegment, Err: err}, unix.Unlinkat(fd, newSegment, 0))
		return fmt.Errorf("new journal segment: %w", err)
	}
	// It has the name, so it is the one that the next start reads.
	old := j.seg
	j.seg, j.failed, j.defers = next, nil, 0
	if old.file != nil {
		old.file.Close()
	}
	if err := statedir.Sync(j.dir); err != nil {
		j.failed = fmt.Errorf("new journal segment: %w", err)
		return j.failed
	}
	removeSegments(j.dir, []string{old.name}, next.name)
	return nil
}

// createSegment writes and syncs the segment with that number, as newSegment.
func (j *Journal) createSegment(number uint64) (*segment, error) {
	f, err := statedir.File(j.dir, newSegment, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return nil, err
	}
	b := j.st.appendTo(appendHeader(nil))
	// Space for all its records: the journal goes on when the disk is full.
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(j.opts.MaxBytes, 2*int64(len(b))))
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(err, unix.Unlinkat(int(j.dir.Fd()), newSegment, 0))
	}
	s := &segment{name: segmentName(number), number: number, file: f}
	s.base, s.size, s.synced = int64(len(b)), int64(len(b)), int64(len(b))
	return s, nil
}

func segmentName(number uint64) string { return fmt.Sprintf("%s%016x", segmentPrefix, number) }

// foundSegment is the newest segment of a state directory; name is empty where
// there is none.
type foundSegment struct {
	name   string
	number uint64
	all    []string // every segment
}

func findSegment(dir *os.File) (foundSegment, error) {
	var found foundSegment
	names, err := readNames(dir)
	if err != nil {
		return found, err
	}
	for _, name := range names {
		n, ok := segmentNumber(name)
		if !ok {
			continue
		}
		found.all = append(found.all, name)
		if n >= found.number {
			found.name, found.number = name, n
		}
	}
	return found, nil
}

// segmentNumber returns the number of the segment with that name, if it is one.
func segmentNumber(name string) (n uint64, ok bool) {
	hex, ok := strings.CutPrefix(name, segmentPrefix)
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, ok && err == nil && segmentName(n) == name
}

// readNames returns the names in dir, which may be an O_PATH descriptor.
func readNames(dir *os.File) ([]string, error) {
	d, err := statedir.File(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// removeSegments removes segments that have a successor; one that stays is
// removed at the next start.
func removeSegments(dir *os.File, names []string, keep string) {
	for _, name := range names {
		if name != keep {
			_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		}
	}
}

func readFile(dir *os.File, name string) ([]byte, error) {
	f, err := statedir.File(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, st.Size())
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		err = nil
	}
	return data[:n], err
}

// datasync makes the content of f durable. It may race with f.Close.
func datasync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var synced error
	err = conn.Control(func(fd uintptr) {
		synced = retryIntr(func() error { return unix.Fdatasync(int(fd)) })
	})
	return errors.Join(err, os.NewSyscallError("fdatasync", synced))
}

func retryIntr(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}
