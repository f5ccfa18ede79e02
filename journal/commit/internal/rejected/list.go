package rejected

import (
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/statedir"
)

// entry is an entry of the store as far as the limits ask.
type entry struct {
	id    string
	at    time.Time
	bytes int64
	uid   uint32 // whose bytes they are
	full  bool   // they were refused because there was no room, in this run of the daemon
}

// compareEntries orders by time, as IDs do.
func compareEntries(a, b entry) int { return strings.Compare(a.id, b.id) }

// list is what is in the store.
type list struct {
	entries []entry // oldest first
	bytes   int64
	of      map[uint32]int64 // bytes of each user who has an entry
	scanned time.Time        // zero: not yet
	dropped Pruned           // what nobody has been told yet
}

// excess is the entry that goes next while there are too many bytes: of the user who
// has most, the oldest. It is -1, with when to ask again, as long as that is too
// young; the others do not lose theirs for it.
func (l *list) excess(now time.Time, maxBytes int64) (int, time.Time) {
	i := l.heaviest(anyEntry)
	e := &l.entries[i]
	// Abs: what a clock set back has in the future goes, too.
	young := now.Sub(e.at).Abs() < minAge
	more := slices.ContainsFunc(l.entries[i+1:], func(o entry) bool { return o.uid == e.uid })
	if young && (l.of[e.uid] <= maxBytes || !more) {
		return -1, e.at.Add(minAge)
	}
	return i, time.Time{}
}

// heaviest is the oldest entry of the user who has most, of those that may go, -1 if there
// is none.
func (l *list) heaviest(mayGo func(*entry) bool) int {
	best := -1
	for i := range l.entries {
		if !mayGo(&l.entries[i]) {
			continue
		}
		if best < 0 || l.of[l.entries[i].uid] > l.of[l.entries[best].uid] {
			best = i
		}
	}
	return best
}

func anyEntry(*entry) bool { return true }

// count counts an entry, or with -1 no more.
func (l *list) count(e entry, sign int64) {
	l.bytes += sign * e.bytes
	if l.of == nil {
		l.of = map[uint32]int64{}
	}
	if l.of[e.uid] += sign * e.bytes; l.of[e.uid] <= 0 {
		delete(l.of, e.uid)
	}
}

// added puts a new entry of the open store into the list. full says that it was refused
// because there was no room.
func (s *Store) added(rejected int, id string, full bool) {
	s.listMu.Lock()
	defer s.listMu.Unlock()
	s.noteKept()
	l := &s.list
	if full && l.scanned.IsZero() {
		_ = s.scanLocked(time.Now())
	}
	e, ok := lookAtEntry(rejected, id)
	if !ok || l.scanned.IsZero() {
		return
	}
	at, found := slices.BinarySearchFunc(l.entries, e, compareEntries)
	if !found { // a scan may have been faster
		l.entries = slices.Insert(l.entries, at, e)
		l.count(e, 1)
	}
	l.entries[at].full = full
}

// scanLocked reads the list from the disk, unless it was read lately.
func (s *Store) scanLocked(now time.Time) error {
	l := &s.list
	if !l.scanned.IsZero() && now.Sub(l.scanned).Abs() < rescanAfter {
		return nil
	}
	rejected, err := statedir.OpenDir(s.disk.StateFD(), Dir)
	if errors.Is(err, unix.ENOENT) {
		*l = list{scanned: now, dropped: l.dropped}
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	found := list{scanned: now, dropped: l.dropped}
	err = disk.ReadDir(rejected, func(d disk.Entry) error {
		if e, ok := lookAtEntry(rejected, d.Name); ok {
			found.entries = append(found.entries, e)
			found.count(e, 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(found.entries, compareEntries)
	for _, e := range l.entries {
		if at, ok := slices.BinarySearchFunc(found.entries, e, compareEntries); ok {
			found.entries[at].full = e.full
		}
	}
	*l = found
	return nil
}

// lookAtEntry tells what an entry of the open store takes; false if name is none.
func lookAtEntry(rejected int, name string) (entry, bool) {
	at, ok := timeOf(name)
	if !ok {
		return entry{}, false
	}
	e := entry{id: name, at: at}
	for _, file := range []string{"/" + Content, "/" + Meta, ""} {
		var st unix.Stat_t
		err := unix.Fstatat(rejected, name+file, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && file == "/"+Content {
			return e, false
		}
		if err == nil && file == "/"+Content {
			e.uid = st.Uid
		}
		if err == nil {
			e.bytes += st.Blocks * 512
		}
	}
	return e, true
}

// TimeFormat is the first part of an ID.
const TimeFormat = "20060102T150405.000000000"

// timeOf reads the time from an ID; false if the name is not one of ours.
func timeOf(id string) (time.Time, bool) {
	stamp, random, ok := strings.Cut(id, "-")
	if !ok || len(random) != 8 || strings.Trim(random, "0123456789abcdef") != "" {
		return time.Time{}, false
	}
	t, err := time.Parse(TimeFormat, stamp)
	// Parse takes a comma for the point.
	return t, err == nil && t.Format(TimeFormat) == stamp
}
