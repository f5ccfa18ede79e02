package rejected

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/statedir"
)

// minAge is how long an entry of the rejected store stays whatever the
// limits are: whoever is told that his bytes were kept is to find them.
const minAge = time.Minute

// rescanAfter is how long the list of entries is trusted, for somebody may have
// removed some by hand.
const rescanAfter = 30 * time.Minute

// MaxDrops bounds how many entries one step gives up on a full disk: where that
// much does not make room, more would not either.
const MaxDrops = 16

// Pruned says what was removed from the rejected store, and why.
type Pruned struct {
	IDs   []string
	Bytes int64 // that the entries took on the disk

	Aged   int // older than the limit
	Excess int // over the limit of bytes
	NoRoom int // given up on a full disk
	Halved int // half removed by an earlier run

	// Again is when an entry that goes will be old enough, zero if there is none.
	Again time.Time
}

func (p *Pruned) add(e entry, why *int) {
	p.IDs = append(p.IDs, e.id)
	p.Bytes += e.bytes
	*why++
}

// Kept gets a value when entries were added to the rejected store, or given up
// on a full disk, since the last one was taken: time for Prune.
func (s *Store) Kept() <-chan struct{} { return s.kept }

func (s *Store) noteKept() {
	select {
	case s.kept <- struct{}{}:
	default:
	}
}

// Prune removes from the rejected store what is older than maxAge (0: any
// age) and what is over maxBytes as du(1) counts them: the oldest entry of the user
// who has most, again and again, so that nobody loses what is within an equal share.
// Nothing goes that is younger than a minute, unless its user alone has more than
// maxBytes and something newer. The result tells of everything that was removed
// since the last call. Entries that cannot be removed are in the error; the
// others go nevertheless.
//
// An entry is gone when its content is. What a crash leaves of it Recover
// removes.
func (s *Store) Prune(now time.Time, maxBytes int64, maxAge time.Duration) (Pruned, error) {
	s.listMu.Lock()
	defer s.listMu.Unlock()
	err := s.scanLocked(now)
	l := &s.list
	p := l.dropped
	l.dropped = Pruned{}
	errs := []error{err}
	for len(l.entries) > 0 {
		i, why := 0, &p.Aged
		if age := now.Sub(l.entries[0].at); maxAge <= 0 || age < maxAge {
			if l.bytes <= maxBytes {
				break
			}
			why = &p.Excess
			if i, p.Again = l.excess(now, maxBytes); i < 0 {
				break
			}
		}
		e := l.entries[i]
		if err := s.removeLocked(i); err != nil {
			errs = append(errs, err)
			continue
		}
		p.add(e, why)
	}
	return p, errors.Join(errs...)
}

// Forget erases entries of the rejected store. When it returns without an error
// they are gone from the disk.
func (s *Store) Forget(ids []string) error {
	s.listMu.Lock()
	defer s.listMu.Unlock()
	rejected, err := statedir.OpenDir(s.disk.StateFD(), Dir)
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	l := &s.list
	var errs []error
	for _, id := range ids {
		err := s.disk.Do("unlink", func() error { return unix.Unlinkat(rejected, id+"/"+Content, 0) })
		if err != nil && !disk.Gone(err) {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
			continue
		}
		if dir, err := disk.OpenDir(rejected, id); err == nil {
			// The content is gone for good before its directory is.
			errs = append(errs, s.disk.Do("fsync", func() error { return unix.Fsync(dir) }))
			unix.Close(dir)
		}
		if err := s.dropEntry(rejected, id); err != nil && !disk.Gone(err) {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
		if i := slices.IndexFunc(l.entries, func(e entry) bool { return e.id == id }); i >= 0 {
			l.count(l.entries[i], -1)
			l.entries = slices.Delete(l.entries, i, i+1)
		}
	}
	errs = append(errs, s.disk.Do("fsync", func() error { return unix.Fsync(rejected) }))
	return errors.Join(errs...)
}

// removeLocked removes an entry of the list from the disk.
func (s *Store) removeLocked(i int) error {
	l := &s.list
	e := l.entries[i]
	l.entries = slices.Delete(l.entries, i, i+1)
	l.count(e, -1)
	rejected, err := statedir.OpenDir(s.disk.StateFD(), Dir)
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	err = s.disk.Do("unlink", func() error { return unix.Unlinkat(rejected, e.id+"/"+Content, 0) })
	if err != nil && !disk.Gone(err) {
		return err
	}
	err = s.dropEntry(rejected, e.id)
	if disk.Gone(err) {
		return nil
	}
	return err
}

// BeingRemoved reports whether an entry of the open store has lost its content to a
// removal.
func BeingRemoved(rejected int, name string) bool {
	_, ok := timeOf(name)
	var st unix.Stat_t
	return ok && errors.Is(unix.Fstatat(rejected, name+"/"+Content, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT)
}

// finishRemoval removes what is left of an entry of the open store. What else may
// lie there is not ours.
func (s *Store) finishRemoval(rejected int, name string) error {
	if !BeingRemoved(rejected, name) {
		return nil
	}
	err := s.dropEntry(rejected, name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err == nil {
		s.listMu.Lock()
		defer s.listMu.Unlock()
		s.list.dropped.add(entry{id: name}, &s.list.dropped.Halved)
	}
	return err
}

// dropOldest gives the oldest entry of the user who has most up, to keep another on a full
// disk; false if there is none.
func (s *Store) dropOldest() bool {
	s.listMu.Lock()
	defer s.listMu.Unlock()
	return s.dropLocked(anyEntry)
}

// GiveWay gives an entry up for a change that finds no room on the disk, and reports whether
// there was one: bytes that were refused for the same reason, as their writer knows, or that
// are older than a minute; of the user who has most the oldest.
func (s *Store) GiveWay() bool {
	if !s.listMu.TryLock() {
		return false // the change may be the removal of an entry itself
	}
	defer s.listMu.Unlock()
	now := time.Now()
	return s.dropLocked(func(e *entry) bool { return e.full || now.Sub(e.at).Abs() >= minAge })
}

// dropLocked removes one of the entries that may go. listMu is held.
func (s *Store) dropLocked(mayGo func(*entry) bool) bool {
	if s.scanLocked(time.Now()) != nil {
		return false
	}
	i := s.list.heaviest(mayGo)
	if i < 0 {
		return false
	}
	e := s.list.entries[i]
	if s.removeLocked(i) != nil {
		return false
	}
	s.list.dropped.add(e, &s.list.dropped.NoRoom)
	s.noteKept()
	return true
}
