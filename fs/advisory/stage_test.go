package advisory

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// A stage has programs that lock files on a lock table, in virtual time. Its names change
// and its processes die when the test says so.
type stage struct {
	*Room
	t     *testing.T
	table *lockmgr.Table
	keyAt map[string]lockmgr.Key // inodes that are locked in place of their path
	keep  map[string]bool        // paths out of which users may keep others
	write bool                   // users may write all files
	bytes unix.Errno             // answers whoever is about to lock bytes

	// Called once, if not nil: before a client locks bytes, before any lock is asked for,
	// and when it was granted.
	locking, acquiring, granted func()

	mu    sync.Mutex // guards what follows
	dead  map[lockmgr.Owner]chan struct{}
	blind bool // nobody's end can be watched
	stops int  // how many watches were given up
	looks int  // how often it was looked how an inode stands to its name
}

// somePolicy has a group of files that share locks, and lock files that stand for others.
const somePolicy = `
[[rule]]
glob = "group/*"
key = "group:g"

[[claim]]
glob = ["other/*.lock"]
format = "flock"
covers = "file"
root = "other"
tree = "group"

[[claim]]
glob = ["*.lock"]
format = "flock"
covers = "file"
`

func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		p, err := policy.Parse("policy.toml", []byte(somePolicy))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		s := &stage{t: t, table: lockmgr.New(lockmgr.Options{}), keyAt: map[string]lockmgr.Key{}, keep: map[string]bool{}, dead: map[lockmgr.Owner]chan struct{}{}}
		s.Room = New(Config{Engine: engine{s}, Table: s.table, Policy: p, Procs: s, Logf: t.Logf, Done: done})
		test(s)
		close(done)
	})
}

// inode is one of the stage's.
type inode struct {
	Inode
	key lockmgr.Key
	is  Standing
	// live is the key under which it is locked as a live file, "" if it is none.
	live lockmgr.Key
}

// file is an open one. It is open in the processes that are listed.
type file struct {
	s      *stage
	id     uint64
	n      *inode
	writes bool
	untold bool
	looked func() // if not nil, called when it is looked how it stands to its name
	in     []int32
	cannot int32 // the process of which nobody can tell
	late   int   // so many questions about processes nobody answers at first
}

func (f *file) ID() uint64            { return f.id }
func (f *file) Inode() *Inode         { return &f.n.Inode }
func (f *file) InodeKey() lockmgr.Key { return f.n.key }
func (f *file) IsWritable() bool      { return f.writes }
func (f *file) IsTold() bool          { return !f.untold }

func (f *file) Standing() Standing {
	if f.looked != nil {
		f.looked()
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.looks++
	return f.n.is
}

func (f *file) LiveKey(path string) (lockmgr.Key, bool) {
	if path != f.n.is.Path {
		f.s.t.Errorf("asked whether %q is live, which is %q", path, f.n.is.Path)
	}
	return f.n.live, f.n.live != ""
}

func (f *file) Opens(pid int32) (int, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.late--; pid == f.cannot || f.late >= 0 {
		return 0, errors.New("nobody can tell")
	}
	if slices.Contains(f.in, pid) {
		return 1, nil
	}
	return 0, nil
}

// caller is a process with its ancestors. Process 0 is in another pid namespace.
type caller struct {
	pid int32
	uid uint32
	up  []int32
}

func (c *caller) UID() uint32          { return c.uid }
func (c *caller) Owner() lockmgr.Owner { return owner(c.pid) }
func (c *caller) Foreign() bool        { return c.pid == 0 }

func (c *caller) Ancestors() (all []lockmgr.Ancestor) {
	for _, pid := range c.up {
		all = append(all, lockmgr.Ancestor{Owner: owner(pid)})
	}
	return all
}

// owner is a process that is 100 times its pid old.
func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: 1 + uint64(pid)*100} }

// newInode is a regular file with a name.
func newInode(path string) *inode {
	return &inode{key: lockmgr.Key("//inode/" + path), is: Standing{Path: path, Regular: true}}
}

// open opens an inode in a process, for reading.
func (s *stage) open(id uint64, n *inode, pids ...int32) *file {
	return &file{s: s, id: id, n: n, in: pids}
}

// flock asks for a flock, without waiting.
func flock(f *file, pid int32, m lockmgr.Mode) *Request {
	return &Request{File: f, By: &caller{pid: pid, uid: 1000}, Class: lockmgr.Flock, Mode: m, NoWait: true}
}

// fcntl asks for a range of bytes, without waiting. The kernel knows a process by its pid.
func fcntl(f *file, pid int32, m lockmgr.Mode, from, to uint64) *Request {
	return &Request{
		File: f, By: &caller{pid: pid, uid: 1000}, Class: lockmgr.Posix, Mode: m, NoWait: true,
		Number: uint64(pid), Range: lockmgr.Range{Start: from, End: to},
	}
}

// lock takes a lock that nobody refuses.
func (s *stage) lock(q *Request) *lockmgr.Lock {
	s.t.Helper()
	l, e := s.Lock(q)
	if e != 0 {
		s.t.Fatalf("a lock was refused: %v", e)
	}
	return l
}

// holds checks who holds a key: the ids of clients, sorted.
func (s *stage) holds(key lockmgr.Key, want ...uint64) {
	s.t.Helper()
	var have []uint64
	for _, h := range s.table.Holders([]lockmgr.Key{key}, nil) {
		have = append(have, h.Client)
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		s.t.Errorf("%s is held by %v, want %v", key, have, want)
	}
}

// rename gives an inode another path, and its locks with it.
func (s *stage) rename(n *inode, to string) {
	s.mu.Lock()
	from := n.is.Path
	n.is.Path = to
	s.mu.Unlock()
	s.table.RenameFiles(lockmgr.FileRename{Rename: lockmgr.Rename{From: lockmgr.Key(from), To: lockmgr.Key(to)}})
}

// close closes a file in a process, and tells of it.
func (s *stage) close(f *file, pid int32) {
	s.forgetIn(f, pid)
	s.Closed(f, uint64(pid))
}

func (s *stage) forgetIn(f *file, pid int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.in = slices.DeleteFunc(f.in, func(p int32) bool { return p == pid })
}

// kill ends a process, and lets everybody learn of it.
func (s *stage) kill(pid int32) {
	s.mu.Lock()
	close(s.dead[owner(pid)])
	delete(s.dead, owner(pid))
	s.mu.Unlock()
	synctest.Wait()
}

// Watch implements Procs.
func (s *stage) Watch(o lockmgr.Owner) (<-chan struct{}, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind {
		return nil, nil, errors.New("no watching")
	}
	if s.dead[o] != nil {
		s.t.Errorf("the end of process %d is watched twice", o.PID)
	}
	s.dead[o] = make(chan struct{})
	return s.dead[o], func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stops++
	}, nil
}

// engine is the stage as the filesystem.
type engine struct{ *stage }

// MayWrite implements Engine.
func (s engine) MayWrite(Caller, File) bool { return s.write }

// MayClaim implements Engine.
func (s engine) MayClaim(_ Caller, path string) bool { return s.keep[path] }

// KeyAt implements Engine.
func (s engine) KeyAt(path string) (lockmgr.Key, bool) {
	k, ok := s.keyAt[path]
	return k, ok
}

// LocksBytes implements Engine.
func (s engine) LocksBytes(f File) unix.Errno {
	if !f.Inode().HasBytesLocked() {
		s.t.Error("whoever opens the file now is not told of")
	}
	once(&s.locking)
	return s.bytes
}

// Acquire implements Engine.
func (s engine) Acquire(a *Ask) (*lockmgr.Lock, unix.Errno) {
	once(&s.acquiring)
	r := s.requestOf(a)
	r.Keys = []lockmgr.Key{s.Key(a.File, a.Class)}
	l, err := s.table.Acquire(r)
	if errors.Is(err, lockmgr.ErrWouldBlock) {
		return nil, unix.EAGAIN
	}
	if err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-l.Done():
	case <-a.Cancel:
		s.table.Cancel(l, nil)
		return nil, unix.EINTR
	}
	once(&s.granted)
	return l, 0
}

// once calls a function that is there, and forgets it.
func once(do *func()) {
	if now := *do; now != nil {
		*do = nil
		now()
	}
}

// Test implements Engine.
func (s engine) Test(a *Ask, k lockmgr.Key) *lockmgr.Holder {
	r := s.requestOf(a)
	r.Keys = []lockmgr.Key{k}
	return s.table.Test(r)
}

// requestOf is what is asked of the lock table.
func (s engine) requestOf(a *Ask) lockmgr.Request {
	r := lockmgr.Request{
		Mode: a.Mode, Class: a.Class, Client: a.Client.ID, Range: a.Range, Weak: a.Weak, NoWait: a.NoWait,
		Owner: a.By.Owner(), Lineage: a.By.Ancestors(),
	}
	if a.Owner != nil {
		r.Owner, r.Lineage = *a.Owner, a.Lineage
	}
	return r
}
