package tail

import (
	"errors"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// Truncate sets the file's size, as ftruncate(2) on an appender's descriptor
// does. As for Append the caller has the file's lock.
func (t *Tail) Truncate(size int64) error {
	return t.resize("truncate", func() (int64, error) { return size, unix.Ftruncate(t.fd, size) })
}

// Allocate is fallocate(2) on an appender's descriptor, which may make the file longer. do is the
// call. As for Append the caller has the file's lock.
func (t *Tail) Allocate(do func() error) error {
	return t.resize("fallocate", func() (int64, error) {
		if err := do(); err != nil {
			return 0, err
		}
		var st unix.Stat_t
		err := unix.Fstat(t.fd, &st)
		return st.Size, err
	})
}

// resize changes the size of the file by do, which returns the new one, under the name of a step.
func (t *Tail) resize(step string, do func() (int64, error)) error {
	t.syncMu.Lock()
	defer t.syncMu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.settleLocked(); err != nil {
		return err
	}
	// No recovery may measure the file by what was appended before.
	if err := t.s.disk.Do("syncjournal", t.s.disk.Journal.Sync); err != nil {
		return err
	}
	err := t.s.disk.Do(step, func() error {
		size, err := do()
		if err == nil {
			t.size = size
		}
		return err
	})
	if err != nil {
		return err
	}
	// On disk before the next undo record says how long the file is.
	return t.s.disk.Do("fdatasync", func() error { return unix.Fdatasync(t.fd) })
}

// Close gives the tail back. The undo record goes when nobody has used the file
// for a while.
func (t *Tail) Close() {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t.users--
	if t.users > 0 || s.closed {
		return
	}
	wait := s.Linger
	var st unix.Stat_t
	if !t.begun.Load() || unix.Fstat(t.fd, &st) == nil && st.Nlink == 0 {
		wait = 0 // nothing to keep: a file that was removed gives its space back
	}
	t.restLocked(wait)
}

// expire ends the tail if nobody has come back to it since it came to rest for the time that
// number says.
func (t *Tail) expire(number uint64) {
	s := t.s
	t.syncMu.Lock()
	defer t.syncMu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	idle := t.restsLocked(number)
	s.mu.Unlock()
	if !idle || t.fd < 0 {
		return
	}
	err := t.settleLocked()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !t.restsLocked(number):
	case err != nil:
		t.againLocked()
	default:
		t.wakeLocked()
		delete(s.files, t.key)
		unix.Close(t.fd)
		t.fd = -1
	}
}

// settleLocked ends the undo record: what was appended is on disk then, or the
// file has no name any more. The journal is not synced. syncMu and mu are held.
func (t *Tail) settleLocked() error {
	if t.intent.ID == 0 || t.fd < 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(t.fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if t.torn {
		if err := t.takeBackLocked(t.fd, &st); err != nil {
			return err // then only a recovery can help
		}
	}
	if st.Nlink > 0 && t.onDisk < t.seq {
		if err := t.s.disk.Do("fdatasync", func() error { return unix.Fdatasync(t.fd) }); err != nil {
			t.lost, t.lostErr = t.seq, err
			return err
		}
		t.onDisk = t.seq
	}
	if err := t.s.disk.Done(t.intent.ID); err != nil {
		return err
	}
	t.intent = journal.Intent{}
	t.begun.Store(false)
	t.unknownRecords, t.unknownBytes = 0, 0
	return nil
}

// Settle brings what was appended to a file to the disk and ends its undo record: the file is
// about to be changed in another way than by appending, or to replace another version.
func (s *Set) Settle(file disk.Inode) error {
	s.mu.Lock()
	t := s.files[file]
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	t.syncMu.Lock()
	defer t.syncMu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settleLocked()
}

// Close ends the undo records of all files, with everything that was appended on
// disk. Tails that are still in use must not be appended to any more.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Values(s.files))
	clear(s.files)
	s.mu.Unlock()
	var errs []error
	for _, t := range open {
		t.syncMu.Lock()
		t.mu.Lock()
		errs = append(errs, t.settleLocked())
		unix.Close(t.fd)
		t.fd = -1
		t.mu.Unlock()
		t.syncMu.Unlock()
	}
	return errors.Join(errs...)
}
