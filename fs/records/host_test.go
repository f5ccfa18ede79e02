package records

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/lockmgr/proc"
)

// This file is the stage as a Host and as Procs.

func (s *stage) Path() string { return "dir/log" }

func (s *stage) Name() (dir int, name string, ok bool) { return s.fd, s.name, !s.unnamed }

func (h *hosted) Own() int { return h.fd }

func (s *stage) IsReplaced() bool { return s.replaced }

func (s *stage) MayOpen(int) bool { return !s.closed }

func (s *stage) Reopen(fd, flags int) (int, error) {
	if s.reopens != nil {
		return -1, s.reopens
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags|unix.O_CLOEXEC, 0)
}

func (s *stage) File() proc.File { return proc.File{Ino: 99} }

func (s *stage) Tail(fd int) (Tail, error) {
	if s.tails != nil {
		return nil, s.tails
	}
	return &tail{s: s, fd: fd}, nil
}

func (s *stage) SyncsAtClose() bool { return s.full }

func (s *stage) SyncName(int) error {
	s.tell("sync name")
	return s.names
}

func (s *stage) Rewrite(target int, st *unix.Stat_t, fill func(to int) error) error {
	if s.rewrites != nil {
		return s.rewrites
	}
	if s.during != nil {
		s.during()
	}
	to, err := os.CreateTemp(s.dir, "")
	if err != nil {
		return err
	}
	defer to.Close()
	defer os.Remove(to.Name())
	if err := fill(int(to.Fd())); err != nil {
		return err
	}
	b, err := os.ReadFile(to.Name())
	if err != nil {
		return err
	}
	s.tell("rewrite %d bytes to %d", st.Size, len(b))
	if err := unix.Ftruncate(target, 0); err != nil {
		return err
	}
	_, err = unix.Pwrite(target, b, 0)
	return err
}

// tail is the end of a file.
type tail struct {
	s   *stage
	fd  int
	seq uint64
}

func (t *tail) Append(w appends.Writer, fd int, b []byte) (uint64, error) {
	if !t.s.held {
		t.s.t.Errorf("%q is appended without the lock", b)
	}
	if t.s.appends != nil {
		return 0, t.s.appends
	}
	t.s.tell("append %q for %d", b, w.UID)
	t.seq++
	_, err := unix.Write(fd, b)
	return t.seq, err
}

func (t *tail) Appended() { t.s.tell("appended") }

func (t *tail) Sync(seq uint64) error {
	t.s.tell("sync %d", seq)
	if t.s.during != nil {
		t.s.during()
	}
	return t.s.syncs
}

func (t *tail) Truncate(size int64) error {
	if !t.s.held {
		t.s.t.Error("the file is cut without the lock")
	}
	if t.s.cuts != nil {
		return t.s.cuts
	}
	return unix.Ftruncate(t.fd, size)
}

func (t *tail) Allocate(do func() error) error {
	if !t.s.held {
		t.s.t.Error("room is made without the lock")
	}
	if t.s.cuts != nil {
		return t.s.cuts
	}
	return do()
}

func (t *tail) Close() { t.s.tell("close tail") }

func (s *stage) TryLock(w appends.Writer) (uint64, func(), error) {
	s.asking = append(s.asking, w.Thread)
	if s.trying != nil {
		s.trying()
	}
	if s.locked || s.held {
		return 0, nil, errTaken
	}
	s.held = true
	return token, func() { s.held = false }, nil
}

func (s *stage) Lock(w appends.Writer, giveUp <-chan struct{}) (func(), error) {
	s.asking = append(s.asking, w.Thread)
	<-giveUp
	return nil, errTaken
}

func (s *stage) Errno(error) unix.Errno { return unix.ETIMEDOUT }

func (s *stage) Patience() time.Duration { return time.Second }

func (s *stage) IsInSession() bool { return s.session }

func (s *stage) InOwnSession(appends.Writer) bool { return s.own != nil }

func (s *stage) AppendToOwn(_ appends.Writer, b []byte) (unix.Errno, bool) {
	if s.own == nil {
		return 0, false
	}
	s.own.Write(b)
	return s.ownErr, true
}

func (s *stage) TruncateOwn(c *Cut) (unix.Errno, bool) {
	if s.own == nil {
		return 0, false
	}
	fmt.Fprintf(s.own, "cut to %d", c.Size)
	return s.ownErr, true
}

func (s *stage) AllocateOwn(_ appends.Writer, do func(fd int) error) (unix.Errno, bool) {
	if s.own == nil {
		return 0, false
	}
	if err := do(-1); err != nil {
		s.t.Error(err)
	}
	s.own.WriteString("room")
	return s.ownErr, true
}

func (s *stage) JudgesLines() bool { return s.judges }

func (s *stage) JudgeLines(int, []byte) unix.Errno { return s.refuses }

func (s *stage) JudgeCut(int, int64) unix.Errno { return s.refusesC }

func (s *stage) AsOpener(do func() error) error {
	s.tell("as opener")
	return do()
}

func (s *stage) KillSuid(of ID, _ int, uid, gid uint32) unix.Errno {
	s.tell("kill suid of %s for %d, %d", s.nameOf(of), uid, gid)
	return s.suid
}

// nameOf is "log" for the file that has the name, and "old" for every other.
func (s *stage) nameOf(of ID) string {
	if of == s.id("log") {
		return "log"
	}
	return "old"
}

func (s *stage) ShowEnd(of ID, _ int, on appends.Occasion) {
	s.tell("show end of %s, %s", s.nameOf(of), [...]string{"written", "asked", "late"}[on])
}

func (s *stage) ShowAll(of ID) { s.tell("show all of %s", s.nameOf(of)) }

func (s *stage) HoldsLine() {
	if s.holding != nil {
		s.holding()
	}
}

func (s *stage) Grows(of ID, fd, added int) bool {
	s.tell("%s grows by %d", s.nameOf(of), added)
	return !s.forgets
}

func (s *stage) Rests(of ID, fd int) { s.tell("%s rests, open %v", s.nameOf(of), fd >= 0) }

func (s *stage) Maps() bool {
	s.tell("maps")
	return !s.forgets
}

func (s *stage) MapsNoMore() { s.tell("maps no more") }

func (s *stage) Committed(records, size int) { s.tell("%d records, %d bytes", records, size) }

func (s *stage) Keep(b []byte, e unix.Errno, reason string) {
	s.tell("keep %q: %s: %s", b, unix.ErrnoName(e), reason)
}

func (s *stage) NotDurable(err error) { s.tell("not durable: %v", err) }

func (s *stage) Errorf(format string, args ...any) { s.tell("error: "+format, args...) }

func (s *stage) Warnf(format string, args ...any) { s.tell("warning: "+format, args...) }

func (s *stage) Change(what What, was *unix.Stat_t) Change {
	if s.quiet {
		return nil
	}
	return &changed{s, []string{"append", "store", "cut"}[what], *was}
}

// changed is a change of a file that had a size.
type changed struct {
	s    *stage
	what string
	was  unix.Stat_t
}

func (c *changed) Keep(token uint64, fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != c.was.Size {
		c.s.t.Errorf("%d bytes are kept, %v, of %d", st.Size, err, c.was.Size)
	}
	c.s.tell("keep version under %d", token)
}

func (c *changed) Drop() { c.s.tell("drop version") }

func (c *changed) Tell(is *unix.Stat_t) { c.s.tell("%s: %d to %d bytes", c.what, c.was.Size, is.Size) }

func (s *stage) Syscall(tid uint32) (proc.Call, bool) {
	call, ok := s.calls[tid]
	return call, ok
}

func (s *stage) Process(pid int32) (proc.Thread, error) {
	o, ok := s.threads[uint32(pid)]
	if !ok {
		return proc.Thread{}, unix.ESRCH
	}
	return proc.Thread{TID: pid, Owner: o}, nil
}

func (s *stage) Opens(pid int32, f proc.File) (writable, readable int, err error) {
	if f.Ino != 99 {
		s.t.Errorf("asked for the descriptors of %v", f)
	}
	switch n := s.opens[pid]; n {
	case -1:
		return 0, 0, fmt.Errorf("process %d: %w", pid, proc.ErrBusy)
	default:
		return n, 1, nil
	}
}
