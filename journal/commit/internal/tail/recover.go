package tail

import (
	"bytes"
	"errors"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/rejected"
)

// Cut is a file whose last record a crash has left unfinished.
type Cut struct {
	Path     string // relative to the data root, as it was when the record was appended
	From, To int64  // size in bytes before and after
	Kept     string // ID under rejected/ of the bytes cut off; "" where they are all zeros or could not be kept
}

// Recovery is one recovery of files that were appended to.
type Recovery struct {
	disk    *disk.Disk
	rejects *rejected.Store
	Cut     []Cut
	Barred  []string // files that may end in an unfinished record, and could not be opened or cut
}

// NewRecovery returns a recovery that keeps aside in r what it cuts off.
func NewRecovery(d *disk.Disk, r *rejected.Store) *Recovery { return &Recovery{disk: d, rejects: r} }

// CheckAt checks the end of a file that was appended to, if it is in the
// directory that the intent names: log rotation renames within that. found is
// false if it has to be looked for.
func (s *Recovery) CheckAt(in journal.Intent) (found bool, err error) {
	dir, err := s.disk.OpenBelow(in.Dir)
	if disk.Gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	target, err := OpenTarget(dir, in.Name, in)
	if err == nil && target < 0 {
		err = disk.ReadDir(dir, func(e disk.Entry) (err error) {
			if target < 0 && e.Ino == in.TargetIno && !disk.Reserved(e.Name) {
				target, err = OpenTarget(dir, e.Name, in)
			}
			return err
		})
	}
	if errors.Is(err, disk.ErrBarred) {
		return true, s.Leave(in)
	}
	if err != nil || target < 0 {
		return false, err
	}
	defer unix.Close(target)
	return true, s.Check(in, target)
}

// OpenTarget opens the file that in is about, -1 if name is not that file. If nobody may write it,
// or it is on a mount that is read-only now, it is open for reading: then it is looked at, and nothing is cut off.
func OpenTarget(dir int, name string, in journal.Intent) (int, error) {
	fd, err := disk.OpenTarget(dir, name, in)
	if errors.Is(err, disk.ErrBarred) || errors.Is(err, unix.EROFS) {
		return disk.ReadTarget(dir, name, in)
	}
	return fd, err
}

// Leave gives up what in says of the end of a file that may not be opened: the file stands as
// it is, with all that was appended.
func (s *Recovery) Leave(in journal.Intent) error {
	s.Barred = append(s.Barred, path.Join(in.Dir, in.Name))
	return s.disk.Finish(in)
}

// isReadOnly reports whether fd was opened for reading alone.
func isReadOnly(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY
}

// Check cuts an unfinished record off the end of the file fd and finishes
// the intent. It may be repeated from the start at any time.
func (s *Recovery) Check(in journal.Intent, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	c := ending{fd: fd, size: st.Size, cached: in.Epoch != "" && in.Epoch == s.disk.Epoch(fd)}
	end, err := c.whole(in.Size, s.disk.Journal.Appends(in.ID))
	if err != nil {
		return err
	}
	if end < st.Size && isReadOnly(fd) {
		return s.Leave(in)
	}
	if end < st.Size {
		where := path.Join(in.Dir, in.Name)
		cut := Cut{Path: where, From: st.Size, To: end, Kept: s.keepEnd(fd, end, &st, where)}
		if err := s.disk.Do("truncate", func() error { return unix.Ftruncate(fd, end) }); err != nil {
			return err
		}
		s.Cut = append(s.Cut, cut)
	} else if !c.cached && !isReadOnly(fd) && mayHaveMore(&st) {
		if err := s.clearBehind(fd, &st); err != nil {
			return err
		}
	}
	// What the killed daemon has appended may be in memory alone, and nobody would know of it
	// any more.
	if err := s.disk.Do("fsync", func() error { return unix.Fsync(fd) }); err != nil {
		return err
	}
	return s.disk.Finish(in)
}

// clearBehind takes away what a power cut may have left behind the end of a file in its last
// block: ext4 writes the bytes before the size. Another cut might show them in place of what is
// appended now.
func (s *Recovery) clearBehind(fd int, st *unix.Stat_t) error {
	if err := s.disk.Do("truncate", func() error { return unix.Ftruncate(fd, st.Size) }); err != nil {
		return err
	}
	err := s.disk.Do("utimens", func() error { return disk.Futimens(fd, [2]unix.Timespec{st.Atim, st.Mtim}) })
	if errors.Is(err, unix.EPERM) {
		return nil // the file of another user, which we may write: only its owner sets its times
	}
	return err
}

// mayHaveMore reports whether the last block of a file has room for bytes behind the end, and may
// be cleared: the bits of a setuid file would go with that.
func mayHaveMore(st *unix.Stat_t) bool {
	return st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 && (st.Blksize <= 0 || st.Size%int64(st.Blksize) != 0)
}

// ending looks for the end of the last whole record of a file.
type ending struct {
	fd     int
	size   int64
	cached bool // nothing that was written is lost: only a record may be cut short
}

// whole returns the length up to which the file has whole records: known bytes
// are beyond doubt, records are what the journal knows of the bytes behind.
func (c *ending) whole(known int64, records []journal.Append) (int64, error) {
	end := min(known, c.size)
	for _, a := range records {
		if a.End() > c.size {
			return min(a.Offset, c.size), nil
		}
		ok, lost := true, false
		if !c.cached {
			var err error
			if ok, lost, err = disk.Verify(c.fd, a); err != nil {
				return 0, err
			}
		}
		switch {
		case lost:
			return a.Offset, nil
		case !ok:
			// No crash does that: somebody has changed the file since.
			return c.size, nil
		}
		end = a.End()
	}
	if c.cached {
		return c.size, nil
	}
	return c.wholeLines(end)
}

// wholeLines returns where the last line ends that begins at from or behind and
// has no NUL bytes before it. Nothing else could be relied upon to be whole:
// see Tail.Sync.
func (c *ending) wholeLines(from int64) (int64, error) {
	end := from
	err := disk.ReadRange(c.fd, from, c.size, func(at int64, b []byte) bool {
		nul := bytes.IndexByte(b, 0)
		if nul >= 0 {
			b = b[:nul]
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			end = at + int64(i) + 1
		}
		return nul < 0
	})
	return end, err
}

// keepEnd keeps the bytes from offset from under rejected/. They were never
// acknowledged, so that there is no room for them is no reason not to go on.
func (s *Recovery) keepEnd(fd int, from int64, st *unix.Stat_t, where string) (id string) {
	zeros := true
	_ = disk.ReadRange(fd, from, st.Size, func(_ int64, b []byte) bool {
		zeros = len(bytes.TrimLeft(b, "\x00")) == 0
		return zeros
	})
	if zeros {
		return ""
	}
	meta := map[string]any{
		"path": where, "operation": "append", "offset": from,
		"reason": "the end of the file was not a whole record after a crash", "found": time.Now().UTC().Format(time.RFC3339Nano),
	}
	part := *st
	part.Size = st.Size - from
	id, err := s.rejects.Put(meta, &part, func(dir int, part *unix.Stat_t) error { return s.copyEnd(fd, from, dir, part) })
	if err != nil {
		return ""
	}
	return id
}

// copyEnd makes the content of an entry of the rejected store from the last
// bytes of a file.
func (s *Recovery) copyEnd(fd int, from int64, dir int, part *unix.Stat_t) error {
	return s.rejects.DoWithRoom("create", func() error {
		to, err := unix.Openat(dir, rejected.Content, unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(to)
		var failed error
		err = disk.ReadRange(fd, from, from+part.Size, func(at int64, b []byte) bool {
			failed = disk.WriteAll(to, b, at-from)
			return failed == nil
		})
		if err != nil || failed != nil {
			_ = unix.Unlinkat(dir, rejected.Content, 0) // the first error counts
			if failed != nil {
				return failed
			}
			return err
		}
		// An ordinary user cannot give it away and needs not: it is in his own tree.
		_ = unix.Fchown(to, int(part.Uid), int(part.Gid))
		return nil
	})
}
