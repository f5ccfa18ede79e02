package commit

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

const (
	// maxLazySize is the size in bytes up to which content is published lazily:
	// its checksum is taken at the commit and compared at a recovery.
	maxLazySize = 1 << 20
	// lazyDelay is how long a commit may stay unsettled.
	lazyDelay = time.Second
	// lazySyncfs is from how many commits on the whole filesystem is synced
	// instead of one file after the other.
	lazySyncfs = 16
	// lazyMost bounds how many commits are unsettled: each has two descriptors.
	lazyMost = 1024
	// lazyDirs bounds for how many directories the journal says that they may
	// hold markers. In further ones commits are synced.
	lazyDirs = 4096
)

// lazyCommit is a published version that is not known to be on disk.
type lazyCommit struct {
	lazyMark
	key    inode
	dirKey inode
	marker string         // the marker's name
	dir    int            // own descriptor of the directory
	fd     int            // own descriptor of the new version
	intent journal.Intent // that stands for the old version's reserved name; ID 0: it has none any more
}

// lazies are the unsettled commits of a data root.
type lazies struct {
	*disk
	waiting atomic.Int64 // commits that are unsettled
	seq     atomic.Uint64
	delay   time.Duration // lazyDelay, but for tests

	settling sync.Mutex // held while commits are settled; taken before mu

	mu    sync.Mutex // guards what follows
	byIno map[inode]*lazyCommit
	dirs  map[inode]journal.Intent // directories that may hold markers
	// Markers of what was not published, which could not be removed.
	strays []*lazyCommit
	timer  *time.Timer
	closed bool
}

func newLazies(d *disk) *lazies {
	return &lazies{disk: d, byIno: map[inode]*lazyCommit{}, dirs: map[inode]journal.Intent{}, delay: lazyDelay}
}

// lazyTarget is a name that is to get a new version.
type lazyTarget struct {
	dir     int    // descriptor of the directory; O_PATH will do
	dirPath string // that directory relative to the data root, for the journal
	name    string
	keepID  string // the content id under which the history gets the old version, "" if it does not
	oldIno  uint64 // of the version that is replaced, 0 if there is none
}

// prepare prepares a lazy publication of the file fd; nil if it is to be synced as
// for Ordered.
func (s *lazies) prepare(fd int, o lazyTarget) *lazyCommit {
	var st, dir unix.Stat_t
	if unix.Fstat(fd, &st) != nil || unix.Fstat(o.dir, &dir) != nil || st.Size > maxLazySize || !s.onRoot(&dir) {
		return nil
	}
	crc, err := checksum(fd, st.Size)
	if err != nil || s.lazyDir(o, &dir) != nil {
		return nil
	}
	return &lazyCommit{
		lazyMark: lazyMark{
			seq: s.seq.Add(1), ino: st.Ino, birth: birth(fd), size: st.Size, mtime: st.Mtim.Nano(), crc: crc,
			name: o.name, keep: o.keepID, oldIno: o.oldIno,
		},
		key: inodeOf(&st), dirKey: inodeOf(&dir), dir: -1, fd: -1,
	}
}

// unsettled returns how many commits are not known to be on disk.
func (s *lazies) unsettled() int64 { return s.waiting.Load() }

// onRoot reports whether a directory is on the data root's own filesystem, and
// not on one that is mounted below.
func (s *lazies) onRoot(dir *unix.Stat_t) bool {
	var root unix.Stat_t
	return unix.Fstat(s.stateFD(), &root) == nil && root.Dev == dir.Dev
}

// errNotLazy: the publication is to be synced.
var errNotLazy = errors.New("not lazily")

// lazyDir sees to it that a recovery looks for markers in a directory.
func (s *lazies) lazyDir(o lazyTarget, st *unix.Stat_t) error {
	key := inodeOf(st)
	s.mu.Lock()
	_, known := s.dirs[key]
	refused := s.closed || !known && len(s.dirs) >= lazyDirs
	s.mu.Unlock()
	switch {
	case refused:
		return errNotLazy
	case known:
		return nil
	}
	in := journal.Intent{
		Kind: journal.KindLazy, Dir: o.dirPath, ShadowDir: o.dirPath,
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: birth(o.dir), Epoch: s.epoch(o.dir),
	}
	var err error
	if in.ID, err = s.begin(in); err != nil {
		return err
	}
	if err := s.do("syncjournal", s.j.Sync); err != nil {
		return errors.Join(err, s.done(in.ID))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, twice := s.dirs[key]; twice {
		// Somebody else has said so meanwhile. One of them is enough, and both
		// are ended together.
		_ = s.j.Done(old.ID) // at worst somebody looks twice
	}
	s.dirs[key] = in
	return nil
}

// place puts the marker beside the file. It is on disk before anything that comes
// later in its directory.
func (l *lazyCommit) place(s *lazies, fd, dir int, old string) error {
	l.old = old
	var err error
	if l.dir, err = unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("dup", err)
	}
	if l.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		l.drop(s)
		return os.NewSyscallError("dup", err)
	}
	l.marker = s.claimName()
	err = s.do("symlink", func() error { return unix.Symlinkat(l.String(), l.dir, l.marker) })
	if err != nil {
		l.drop(s)
	}
	return err
}

// remove takes the marker of a publication away that did not happen.
func (l *lazyCommit) remove(s *lazies) {
	if l.marker == "" {
		return
	}
	if s.do("unlink", func() error { return unix.Unlinkat(l.dir, l.marker, 0) }) == nil {
		l.drop(s)
		return
	}
	// It says nothing, for the name never held the inode. But it is in the way.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = append(s.strays, l)
	s.armLazyLocked()
}

// drop gives back what the commit has.
func (l *lazyCommit) drop(s *lazies) {
	if l.marker != "" {
		s.release(l.marker)
		l.marker = ""
	}
	for _, fd := range []*int{&l.dir, &l.fd} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// armLazyLocked sees to it that what is pending is settled. mu is held.
func (s *lazies) armLazyLocked() {
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(s.delay, s.settleLazies)
	}
}

// published hands a publication over that has happened.
func (s *lazies) published(l *lazyCommit) {
	s.mu.Lock()
	s.byIno[l.key] = l
	n := s.waiting.Add(1)
	s.armLazyLocked()
	s.mu.Unlock()
	if n > lazyMost {
		s.settleLazies() // the disk does not keep pace
	}
}

// standsBy hands over the intent of the reserved name that the old version has: it
// stays until the new one is on disk.
func (l *lazyCommit) standsBy(in journal.Intent) { l.intent = in }
