package commit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// minRejectedAge is how long an entry of the rejected store stays whatever the
// limits are: whoever is told that his bytes were kept is to find them.
const minRejectedAge = time.Minute

// rescanAfter is how long the list of entries is trusted, for somebody may have
// removed some by hand.
const rescanAfter = 30 * time.Minute

// maxDrops bounds how many entries one step gives up on a full disk: where that
// much does not make room, more would not either.
const maxDrops = 16

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

func (p *Pruned) add(e rejectedEntry, why *int) {
	p.IDs = append(p.IDs, e.id)
	p.Bytes += e.bytes
	*why++
}

// rejectedEntry is an entry of the store as far as the limits ask.
type rejectedEntry struct {
	id    string
	at    time.Time
	bytes int64
	uid   uint32 // whose bytes they are
}

// compareEntries orders by time, as IDs do.
func compareEntries(a, b rejectedEntry) int { return strings.Compare(a.id, b.id) }

// rejectedList is what is in the store.
type rejectedList struct {
	entries []rejectedEntry // oldest first
	bytes   int64
	of      map[uint32]int64 // bytes of each user who has an entry
	scanned time.Time        // zero: not yet
	dropped Pruned           // what nobody has been told yet
}

// Kept gets a value when entries were added to the rejected store, or given up
// on a full disk, since the last one was taken: time for PruneRejected.
func (s *Store) Kept() <-chan struct{} { return s.kept }

func (s *Store) noteKept() {
	select {
	case s.kept <- struct{}{}:
	default:
	}
}

// PruneRejected removes from the rejected store what is older than maxAge (0: any
// age) and what is over maxBytes as du(1) counts them: the oldest entry of the user
// who has most, again and again, so that nobody loses what is within an equal share.
// Nothing goes that is younger than a minute, unless its user alone has more than
// maxBytes and something newer. The result tells of everything that was removed
// since the last call. Entries that cannot be removed are in the error; the
// others go nevertheless.
//
// An entry is gone when its content is. What a crash leaves of it Recover
// removes.
func (s *Store) PruneRejected(now time.Time, maxBytes int64, maxAge time.Duration) (Pruned, error) {
	s.rejMu.Lock()
	defer s.rejMu.Unlock()
	err := s.scanRejectedLocked(now)
	l := &s.rejected
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

// excess is the entry that goes next while there are too many bytes: of the user who
// has most, the oldest. It is -1, with when to ask again, as long as that is too
// young; the others do not lose theirs for it.
func (l *rejectedList) excess(now time.Time, maxBytes int64) (int, time.Time) {
	i := l.heaviest()
	e := &l.entries[i]
	// Abs: what a clock set back has in the future goes, too.
	young := now.Sub(e.at).Abs() < minRejectedAge
	more := slices.ContainsFunc(l.entries[i+1:], func(o rejectedEntry) bool { return o.uid == e.uid })
	if young && (l.of[e.uid] <= maxBytes || !more) {
		return -1, e.at.Add(minRejectedAge)
	}
	return i, time.Time{}
}

// heaviest is the oldest entry of the user who has most, -1 if there is none.
func (l *rejectedList) heaviest() int {
	best := -1
	for i := range l.entries {
		if best < 0 || l.of[l.entries[i].uid] > l.of[l.entries[best].uid] {
			best = i
		}
	}
	return best
}

// count counts an entry, or with -1 no more.
func (l *rejectedList) count(e rejectedEntry, sign int64) {
	l.bytes += sign * e.bytes
	if l.of == nil {
		l.of = map[uint32]int64{}
	}
	if l.of[e.uid] += sign * e.bytes; l.of[e.uid] <= 0 {
		delete(l.of, e.uid)
	}
}

// ForgetRejected erases entries of the rejected store. When it returns without an error
// they are gone from the disk.
func (s *Store) ForgetRejected(ids []string) error {
	s.rejMu.Lock()
	defer s.rejMu.Unlock()
	rejected, err := statedir.OpenDir(s.stateFD(), RejectedDir)
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	l := &s.rejected
	var errs []error
	for _, id := range ids {
		err := s.do("unlink", func() error { return unix.Unlinkat(rejected, id+"/"+RejectedContent, 0) })
		if err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
			continue
		}
		if dir, err := openDir(rejected, id); err == nil {
			// The content is gone for good before its directory is.
			errs = append(errs, s.do("fsync", func() error { return unix.Fsync(dir) }))
			unix.Close(dir)
		}
		if err := s.dropEntry(rejected, id); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("%s: %w", id, err))
		}
		if i := slices.IndexFunc(l.entries, func(e rejectedEntry) bool { return e.id == id }); i >= 0 {
			l.count(l.entries[i], -1)
			l.entries = slices.Delete(l.entries, i, i+1)
		}
	}
	errs = append(errs, s.do("fsync", func() error { return unix.Fsync(rejected) }))
	return errors.Join(errs...)
}

// removeLocked removes an entry of the list from the disk.
func (s *Store) removeLocked(i int) error {
	l := &s.rejected
	e := l.entries[i]
	l.entries = slices.Delete(l.entries, i, i+1)
	l.count(e, -1)
	rejected, err := statedir.OpenDir(s.stateFD(), RejectedDir)
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	err = s.do("unlink", func() error { return unix.Unlinkat(rejected, e.id+"/"+RejectedContent, 0) })
	if err != nil && !gone(err) {
		return err
	}
	err = s.dropEntry(rejected, e.id)
	if gone(err) {
		return nil
	}
	return err
}

// beingRemoved reports whether an entry of the open store has lost its content to a
// removal.
func beingRemoved(rejected int, name string) bool {
	_, ok := rejectedTime(name)
	var st unix.Stat_t
	return ok && errors.Is(unix.Fstatat(rejected, name+"/"+RejectedContent, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT)
}

// finishRemoval removes what is left of an entry of the open store. What else may
// lie there is not ours.
func (s *Store) finishRemoval(rejected int, name string) error {
	if !beingRemoved(rejected, name) {
		return nil
	}
	err := s.dropEntry(rejected, name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err == nil {
		s.rejMu.Lock()
		defer s.rejMu.Unlock()
		s.rejected.dropped.add(rejectedEntry{id: name}, &s.rejected.dropped.Halved)
	}
	return err
}

// dropRejected gives the oldest entry of the user who has most up on a full disk; false if there is none.
func (s *Store) dropRejected() bool {
	s.rejMu.Lock()
	defer s.rejMu.Unlock()
	if s.scanRejectedLocked(time.Now()) != nil || len(s.rejected.entries) == 0 {
		return false
	}
	i := s.rejected.heaviest()
	e := s.rejected.entries[i]
	if s.removeLocked(i) != nil {
		return false
	}
	s.rejected.dropped.add(e, &s.rejected.dropped.NoRoom)
	s.noteKept()
	return true
}

// added puts a new entry of the open store into the list.
func (s *Store) added(rejected int, id string) {
	s.rejMu.Lock()
	defer s.rejMu.Unlock()
	s.noteKept()
	l := &s.rejected
	e, ok := lookAtEntry(rejected, id)
	if !ok || l.scanned.IsZero() {
		return
	}
	at, found := slices.BinarySearchFunc(l.entries, e, compareEntries)
	if !found { // a scan may have been faster
		l.entries = slices.Insert(l.entries, at, e)
		l.count(e, 1)
	}
}

// scanRejectedLocked reads the list from the disk, unless it was read lately.
func (s *Store) scanRejectedLocked(now time.Time) error {
	l := &s.rejected
	if !l.scanned.IsZero() && now.Sub(l.scanned).Abs() < rescanAfter {
		return nil
	}
	rejected, err := statedir.OpenDir(s.stateFD(), RejectedDir)
	if errors.Is(err, unix.ENOENT) {
		*l = rejectedList{scanned: now, dropped: l.dropped}
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	found := rejectedList{scanned: now, dropped: l.dropped}
	err = readDir(rejected, func(d dirent) error {
		if e, ok := lookAtEntry(rejected, d.name); ok {
			found.entries = append(found.entries, e)
			found.count(e, 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(found.entries, compareEntries)
	*l = found
	return nil
}

// lookAtEntry tells what an entry of the open store takes; false if name is none.
func lookAtEntry(rejected int, name string) (rejectedEntry, bool) {
	at, ok := rejectedTime(name)
	if !ok {
		return rejectedEntry{}, false
	}
	e := rejectedEntry{id: name, at: at}
	for _, file := range []string{"/" + RejectedContent, "/" + RejectedMeta, ""} {
		var st unix.Stat_t
		err := unix.Fstatat(rejected, name+file, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && file == "/"+RejectedContent {
			return e, false
		}
		if err == nil && file == "/"+RejectedContent {
			e.uid = st.Uid
		}
		if err == nil {
			e.bytes += st.Blocks * 512
		}
	}
	return e, true
}

// rejectedTimeFormat is the first part of an ID.
const rejectedTimeFormat = "20060102T150405.000000000"

// rejectedTime reads the time from an ID; false if the name is not one of ours.
func rejectedTime(id string) (time.Time, bool) {
	stamp, random, ok := strings.Cut(id, "-")
	if !ok || len(random) != 8 || strings.Trim(random, "0123456789abcdef") != "" {
		return time.Time{}, false
	}
	t, err := time.Parse(rejectedTimeFormat, stamp)
	// Parse takes a comma for the point.
	return t, err == nil && t.Format(rejectedTimeFormat) == stamp
}
