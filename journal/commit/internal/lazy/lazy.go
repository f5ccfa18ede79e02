package lazy

import (
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

const (
	// MaxSize is the size in bytes up to which content is published lazily:
	// its checksum is taken at the commit and compared at a recovery.
	MaxSize = 1 << 20
	// MaxSizeAnew is the same for a file that is made: its checksum takes less time than
	// any disk takes for its bytes.
	MaxSizeAnew = 16 << 20
	// delay is how long a commit may stay unsettled.
	delay = time.Second
	// SyncfsFrom is from how many commits on the whole filesystem is synced
	// instead of one file after the other.
	SyncfsFrom = 16
	// most bounds how many commits are unsettled: each has a descriptor.
	most = 1024
	// mostDirs bounds for how many directories the journal says that they may
	// hold markers. In further ones commits are synced.
	mostDirs = 4096
)

// Commit is a published version that is not known to be on disk.
type Commit struct {
	Mark
	key    disk.Inode
	dirKey disk.Inode
	marker string         // the marker's name
	dir    *disk.Shared   // the directory
	file   *disk.Shared   // the new version
	path   string         // of the file relative to the data root, for messages
	intent journal.Intent // that stands for the old version's reserved name; ID 0: it has none any more
	// moving ends with the rename that keeps the commit from being settled, settling says
	// that it must not be renamed. Guarded by Set.mu.
	moving   chan struct{}
	settling bool
	// doubtful: a sync of it has failed, and the next one may not say so again. Guarded by
	// Set.settling.
	doubtful bool
}

// Set are the unsettled commits of a data root.
type Set struct {
	disk    *disk.Disk
	waiting atomic.Int64 // commits that are unsettled
	seq     atomic.Uint64
	links   atomic.Bool   // there is the file that markers are links of
	Delay   time.Duration // lazyDelay, but for tests

	// OnLost, if set, is called when what was acknowledged cannot be made durable, with its
	// path relative to the data root. It may be called while commits are settled.
	OnLost func(path string, err error)

	settling sync.Mutex // held while commits are settled; taken before mu

	mu    sync.Mutex // guards what follows
	byIno map[disk.Inode]*Commit
	dirs  map[disk.Inode]journal.Intent // directories that may hold markers
	// open are descriptors of these, as long as there are commits in them.
	open map[disk.Inode]*disk.Shared
	// Markers of what was not published, which could not be removed.
	strays []*Commit
	soon   soon
	losses uint64 // names that were taken away, counted
	// syncing says of the names that were taken away in how many syncs that are under way
	// they are made durable.
	syncing map[goneName]int
	failed  map[disk.Inode]error // syncs that nobody has asked about since
	timer   *time.Timer
	closed  bool
}

// New returns the lazy commits of d: none yet.
func New(d *disk.Disk) *Set {
	return &Set{
		disk: d, byIno: map[disk.Inode]*Commit{}, dirs: map[disk.Inode]journal.Intent{},
		open: map[disk.Inode]*disk.Shared{}, syncing: map[goneName]int{}, failed: map[disk.Inode]error{}, Delay: delay,
	}
}

// Target is a name that is to get a new version.
type Target struct {
	Dir     int        // descriptor of the directory; O_PATH will do
	Inode   disk.Inode // of the directory
	DirPath string     // that directory relative to the data root, for the journal
	Name    string
	KeepID  string // the content id under which the history gets the old version, "" if it does not
	OldIno  uint64 // of the version that is replaced, 0 if there is none
	Anew    bool   // the name was free
}

// Prepare prepares a lazy publication of the file fd, which has the status st and was born
// at birth; nil if it is to be synced as for Ordered.
func (s *Set) Prepare(fd int, st *unix.Stat_t, birth int64, o Target) *Commit {
	if st.Size > o.limit() || !s.disk.IsOnRoot(o.Inode.Dev) {
		return nil
	}
	crc, err := disk.Checksum(fd, st.Size)
	if err != nil || s.announce(o) != nil {
		return nil
	}
	return &Commit{
		Mark: Mark{
			seq: s.seq.Add(1), ino: st.Ino, birth: birth, size: st.Size, mtime: st.Mtim.Nano(), crc: crc,
			name: o.Name, keep: o.KeepID, oldIno: o.OldIno,
		},
		key: disk.InodeOf(st), dirKey: o.Inode, path: o.path(),
	}
}

func (o *Target) limit() int64 {
	if o.Anew {
		return MaxSizeAnew
	}
	return MaxSize
}

func (o *Target) path() string { return path.Join(o.DirPath, o.Name) }

// Unsettled returns how many commits are not known to be on disk.
func (s *Set) Unsettled() int64 { return s.waiting.Load() }

// errNotLazy: the publication is to be synced.
var errNotLazy = errors.New("not lazily")

// announce sees to it that a recovery looks for markers in a directory.
func (s *Set) announce(o Target) error {
	key := o.Inode
	s.mu.Lock()
	_, known := s.dirs[key]
	refused := s.closed || !known && len(s.dirs) >= mostDirs
	s.mu.Unlock()
	switch {
	case refused:
		return errNotLazy
	case known:
		return nil
	}
	s.prepareLinks(key.Dev)
	in := journal.Intent{
		Kind: journal.KindLazy, Dir: o.DirPath, ShadowDir: o.DirPath,
		TargetDev: key.Dev, TargetIno: key.Ino, TargetBirth: disk.Birth(o.Dir), Epoch: s.disk.Epoch(o.Dir),
	}
	var err error
	if in.ID, err = s.disk.Begin(in); err != nil {
		return err
	}
	if err := s.disk.Do("syncjournal", s.disk.Journal.Sync); err != nil {
		return errors.Join(err, s.disk.Done(in.ID))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, twice := s.dirs[key]; twice {
		// Somebody else has said so meanwhile. One of them is enough, and both
		// are ended together.
		_ = s.disk.Journal.Done(old.ID) // at worst somebody looks twice
	}
	s.dirs[key] = in
	return nil
}

// armLocked sees to it that what is pending is settled. mu is held.
func (s *Set) armLocked() {
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(s.Delay, s.settleDue)
	}
}

// Published hands a publication over that has happened.
func (s *Set) Published(l *Commit) {
	s.mu.Lock()
	s.byIno[l.key] = l
	n := s.waiting.Add(1)
	s.armLocked()
	s.mu.Unlock()
	if n > most {
		s.settleDue() // the disk does not keep pace
	}
}

// StandsBy hands over the intent of the reserved name that the old version has: it
// stays until the new one is on disk.
func (l *Commit) StandsBy(in journal.Intent) { l.intent = in }
