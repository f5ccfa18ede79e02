package commit

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/journal"

	"golang.org/x/sys/unix"
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
	key    tailKey
	dirKey tailKey
	marker string         // the marker's name
	dir    int            // own descriptor of the directory
	fd     int            // own descriptor of the new version
	intent journal.Intent // that stands for the old version's reserved name; ID 0: it has none any more
}

// lazies are the unsettled commits of a store.
type lazies struct {
	settling sync.Mutex // held while commits are settled; taken before Store.mu
	pending  atomic.Int64
	seq      atomic.Uint64
	// Guarded by Store.mu.
	byIno map[tailKey]*lazyCommit
	dirs  map[tailKey]journal.Intent // directories that may hold markers
	// Markers of what was not published, which could not be removed.
	strays []*lazyCommit
	timer  *time.Timer
	delay  time.Duration // lazyDelay, but for tests
}

func newLazies() lazies {
	return lazies{byIno: map[tailKey]*lazyCommit{}, dirs: map[tailKey]journal.Intent{}, delay: lazyDelay}
}

// lazyPrepare prepares a lazy publication of the shadow; nil if it is to be
// synced as for Ordered.
func (sh *Shadow) lazyPrepare(o PublishOptions) *lazyCommit {
	// The log of btrfs does not keep the order of names that this relies on.
	if o.Durability != Lazy || forgetsUnnamed(sh.fd) && !sh.s.lazyAnywhere {
		return nil
	}
	var st, dir unix.Stat_t
	if unix.Fstat(sh.fd, &st) != nil || unix.Fstat(o.Dir, &dir) != nil || st.Size > maxLazySize || !sh.s.onRoot(&dir) {
		return nil
	}
	crc, err := checksum(sh.fd, st.Size)
	if err != nil || sh.s.lazyDir(o, &dir) != nil {
		return nil
	}
	l := &lazyCommit{
		lazyMark: lazyMark{
			seq: sh.s.lazy.seq.Add(1), ino: st.Ino, birth: birth(sh.fd), size: st.Size, mtime: st.Mtim.Nano(), crc: crc,
			name: o.Name, keep: o.Keep.ID,
		},
		key: tailKey{uint64(st.Dev), st.Ino}, dirKey: tailKey{uint64(dir.Dev), dir.Ino}, dir: -1, fd: -1,
	}
	if o.Base != nil {
		l.oldIno = o.Base.Ino
	}
	return l
}

// onRoot reports whether a directory is on the data root's own filesystem, and
// not on one that is mounted below.
func (s *Store) onRoot(dir *unix.Stat_t) bool {
	var root unix.Stat_t
	return unix.Fstat(s.stateFD(), &root) == nil && root.Dev == dir.Dev
}

// checksum is the CRC-32C of the size bytes of a file.
func checksum(fd int, size int64) (crc uint32, err error) {
	c := tailCheck{fd: fd, size: size}
	var n int64
	err = c.read(0, size, func(_ int64, b []byte) bool {
		crc = journal.UpdateChecksum(crc, b)
		n += int64(len(b))
		return true
	})
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return crc, err
}

// errNotLazy: the publication is to be synced.
var errNotLazy = errors.New("not lazily")

// lazyDir sees to it that a recovery looks for markers in a directory.
func (s *Store) lazyDir(o PublishOptions, st *unix.Stat_t) error {
	key := tailKey{uint64(st.Dev), st.Ino}
	s.mu.Lock()
	_, known := s.lazy.dirs[key]
	refused := s.closed || !known && len(s.lazy.dirs) >= lazyDirs
	s.mu.Unlock()
	switch {
	case refused:
		return errNotLazy
	case known:
		return nil
	}
	in := journal.Intent{
		Kind: journal.KindLazy, Dir: o.DirPath, ShadowDir: o.DirPath,
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: birth(o.Dir), Epoch: s.epoch(o.Dir),
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
	if old, twice := s.lazy.dirs[key]; twice {
		// Somebody else has said so meanwhile. One of them is enough, and both
		// are ended together.
		_ = s.j.Done(old.ID) // at worst somebody looks twice
	}
	s.lazy.dirs[key] = in
	return nil
}

// place puts the marker beside the file. It is on disk before anything that comes
// later in its directory.
func (l *lazyCommit) place(s *Store, fd int, o PublishOptions, old string) error {
	l.old = old
	var err error
	if l.dir, err = unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0); err != nil {
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
func (l *lazyCommit) remove(s *Store) {
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
	s.lazy.strays = append(s.lazy.strays, l)
	s.armLazyLocked()
}

// drop gives back what the commit has.
func (l *lazyCommit) drop(s *Store) {
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

// armLazyLocked sees to it that what is pending is settled. Store.mu is held.
func (s *Store) armLazyLocked() {
	if s.lazy.timer == nil && !s.closed {
		s.lazy.timer = time.AfterFunc(s.lazy.delay, s.settleLazies)
	}
}

// lazyPublished hands a publication over that has happened.
func (s *Store) lazyPublished(l *lazyCommit) {
	s.mu.Lock()
	s.lazy.byIno[l.key] = l
	n := s.lazy.pending.Add(1)
	s.armLazyLocked()
	s.mu.Unlock()
	if n > lazyMost {
		s.settleLazies() // the disk does not keep pace
	}
}
