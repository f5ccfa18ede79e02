package holders

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"latchfs/fs/account"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Procs tells of processes; see proc.Reader, which does.
type Procs interface {
	Process(pid int32) (proc.Thread, error)
	All() []lockmgr.Owner
	Descendants(pid int32) []int32
	Alive(o lockmgr.Owner) bool
	ExitOf(pid int32) (sig int, exiting bool)
	Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error)
	Opens(pid int32, f proc.File) (writable, readable int, err error)
	OpensOfCloser(o lockmgr.Owner, f proc.File) (writable, readable int, err error)
	Descriptors(pid int32) int64
	MapsWritable(pid int32, f, backing proc.File) (bool, error)
}

// File is a file as /proc shows it. What it shows may change while the file is open.
type File interface {
	// AsOpen is the file as descriptors of it show it.
	AsOpen() proc.File
	// AsMapped is the file as a mapping in passthrough shows it.
	AsMapped() proc.File
}

// Config is what a Set works with.
type Config struct {
	Procs Procs
	Looks *account.Rate // how many descriptors may be looked at for each user
	File  File
	UID   uint32        // the user whom looks are charged to
	Since lockmgr.Birth // when the file was opened: an older process has inherited no descriptor of it
	// Doubts says that a process which the kernel hides from the daemon may hold the file even
	// when it has closed as many descriptors of it as it has opened. It is false where the
	// daemon's own user writes the file: the kernel shows that user's processes, apart from those
	// that hide themselves (PR_SET_DUMPABLE), and of these the count is believed.
	Doubts bool
}

// Set is the holder set of a file that is open to be written. Its user guards it with a
// mutex. IsOnlyMapped, HasLeft and PendingLook need none, nor does Anybody when nobody can
// open the file any more.
type Set struct {
	c    Config
	seen map[int32]member // by pid

	mappable   bool        // somebody opened it to read and write: mmap(2) needs the right to read
	onlyMapped atomic.Bool // somebody was seen to have it mapped, and no descriptor of it
	unseen     atomic.Bool // see IsUnseen
	// unlooked is a process that has closed its descriptor, and at which the look for another
	// descriptor was put off; nil if no look is pending.
	unlooked atomic.Pointer[lockmgr.Owner]
}

// member is a process that was noted.
type member struct {
	lockmgr.Owner
	// open is how many descriptors it has opened and not closed yet. It may be too low if the
	// process was given a descriptor, or has duplicated one.
	open int
}

// New makes an empty set.
func New(c Config) *Set { return &Set{c: c, seen: map[int32]member{}} }

// Note adds a process that uses a descriptor of the file. A process of which nothing is known
// (pid 0) cannot be looked at, and is left out.
func (s *Set) Note(o lockmgr.Owner) { s.note(o, 0) }

// note adds a process, and what it has opened (1) or closed (-1) to what it has open.
func (s *Set) note(o lockmgr.Owner, opened int) {
	if o.PID == 0 {
		return
	}
	u := s.seen[o.PID]
	if u.Owner != o {
		u = member{Owner: o}
	}
	u.open = max(u.open+opened, 0)
	s.seen[o.PID] = u
}

// NoteOpen is Note for a process that opens the file, which it can map if it has opened it
// to read as well.
func (s *Set) NoteOpen(o lockmgr.Owner, reads bool) {
	s.mappable = s.mappable || reads
	s.onlyMapped.Store(false)
	s.note(o, 1)
}

// NoteClose is Note for a process that closes a descriptor.
func (s *Set) NoteClose(o lockmgr.Owner) { s.note(o, -1) }

// CanMap reports whether somebody may have mapped the file to write it.
func (s *Set) CanMap() bool { return s.mappable }

// Seen lists the processes that were noted and have not been found dead since.
func (s *Set) Seen() []lockmgr.Owner {
	out := make([]lockmgr.Owner, 0, len(s.seen))
	for _, u := range s.seen {
		out = append(out, u.Owner)
	}
	return out
}

// members lists the pids of the noted processes that live and of all their descendants, each
// once. It forgets the dead ones, apart from the one that closes.
func (s *Set) members(by *Closer) []int32 {
	out := make([]int32, 0, len(s.seen)+4)
	have := map[int32]bool{}
	add := func(pid int32) {
		if !have[pid] {
			have[pid] = true
			out = append(out, pid)
		}
	}
	for pid, u := range s.seen {
		var below []int32
		switch {
		case by != nil && by.Owner == u.Owner:
			below = by.children // it may be dying, but its children are known
		case !s.c.Procs.Alive(u.Owner):
			delete(s.seen, pid)
			continue
		default:
			below = s.c.Procs.Descendants(pid)
		}
		add(pid)
		for _, d := range below {
			add(d)
		}
	}
	return out
}

// charge charges a look at a process to the user. It returns false if the user has had too
// many descriptors looked at already: then no look may be made.
func (s *Set) charge(pid int32) (ok bool) {
	return !s.c.Looks.Bounds(s.c.UID) || s.c.Looks.Spend(s.c.UID, s.c.Procs.Descriptors(pid), time.Now())
}

// sight is what a look at a process has shown.
type sight int

const (
	free   sight = iota // it does not hold the file
	holds               // it does
	hidden              // it may, and the kernel does not show that to the daemon
)

// look finds out whether a process holds the file.
func (s *Set) look(pid int32) sight {
	if pid == 0 {
		return free
	}
	file := s.c.File.AsOpen()
	w, _, err := s.c.Procs.Opens(pid, file)
	return s.judge(pid, file, w, err)
}

// lookAtOwner is look for the process whose file it is, which may be the one that closes it. A
// process of which nothing is known is hidden.
func (s *Set) lookAtOwner(o lockmgr.Owner, by *Closer) sight {
	if o.PID == 0 {
		return hidden
	}
	if by == nil || by.Owner != o || by.Program == "" {
		return s.look(o.PID)
	}
	file := s.c.File.AsOpen()
	w, _, err := s.c.Procs.OpensOfCloser(o, file)
	return s.judge(o.PID, file, w, err)
}

// judge says whether a process holds the file, after a look that has shown w descriptors to
// write it, or has failed with err.
func (s *Set) judge(pid int32, file proc.File, w int, err error) sight {
	switch {
	case err == nil && w > 0, errors.Is(err, proc.ErrBusy), proc.IsHidden(err) && s.seen[pid].open > 0:
		return holds
	case s.c.Doubts && proc.IsHidden(err) && s.mayHold(pid):
		return hidden
	case s.mappable && s.maps(pid, file, s.c.File.AsMapped()):
		return holds
	}
	return free
}

// mayHold reports whether a process that the kernel does not show may hold the file: it has
// used the file, or was born after the file was opened.
func (s *Set) mayHold(pid int32) bool {
	if _, seen := s.seen[pid]; seen {
		return true
	}
	th, err := s.c.Procs.Process(pid)
	return err != nil || lockmgr.Birth{Tick: th.Owner.Start, PID: pid}.After(s.c.Since)
}

// maps finds out whether a process, of which no descriptor was found, has the file mapped to
// write it. If so, the file is noted as only mapped.
func (s *Set) maps(pid int32, file, backing proc.File) bool {
	mapped, err := s.c.Procs.MapsWritable(pid, file, backing)
	if !mapped && !errors.Is(err, proc.ErrBusy) {
		return false
	}
	s.onlyMapped.Store(true)
	return true
}

// IsOnlyMapped reports whether a look has shown somebody to have the file mapped, and no
// descriptor of it, since it was opened last.
func (s *Set) IsOnlyMapped() bool { return s.onlyMapped.Load() }

// Closer is a process that closes a descriptor of the file. Its close may be the last.
type Closer struct {
	Owner   lockmgr.Owner
	Program string // that it runs; "" if it was not looked at: it may be in execve
	Exiting bool   // its descriptors and mappings are gone already
	Killed  bool   // by a signal
	// Unheld says that a look after this close has shown that nobody in the holder set has the file.
	Unheld bool

	// children are its descendants at the time of the close.
	children []int32
	// held are the children that a look has shown to hold the file. The first Find believes that
	// without another look: a child that closes the file later sends a FLUSH of its own.
	held []int32
}

// sawHolding reports whether a look has shown that a process holds the file. If it returns
// false, the process may have been given the file since.
func (by *Closer) sawHolding(pid int32) bool { return by != nil && slices.Contains(by.held, pid) }

// NoteChildren adds the descendants that have inherited a descriptor from the process that
// closes its own: once that is dead, nobody knows whose children they were.
func (s *Set) NoteChildren(by *Closer) {
	if by.Owner.PID == 0 {
		return
	}
	by.children = s.c.Procs.Descendants(by.Owner.PID)
	for _, pid := range by.children {
		if !s.charge(pid) {
			continue
		}
		switch s.look(pid) {
		case holds:
			by.held = append(by.held, pid)
		case hidden:
		case free:
			continue
		}
		if th, err := s.c.Procs.Process(pid); err == nil {
			s.Note(th.Owner)
		}
	}
}
