package fs

import (
	"cmp"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// A process that dies by a signal with a file open has not finished the file
// (DESIGN §4.2). The policy's on-kill says what becomes of the file.

// killedWriter is a process that died by a signal with the shadow open.
type killedWriter struct {
	owner   lockmgr.Owner
	signal  unix.Signal
	program string
	lineage []lockmgr.Ancestor // as it was then: afterwards nobody can tell
}

// killedWriterOf describes the sender of a FLUSH that is dying by a signal.
func killedWriterOf(c *caller, sig int) *killedWriter {
	return &killedWriter{owner: c.owner, signal: unix.Signal(sig), program: c.program(), lineage: c.ancestors()}
}

// noteKilledLocked notes that a process was killed with the shadow open. The end
// that leaves the least hope that the file is finished counts. A helper in a
// pipeline that dies of SIGPIPE because its reader had enough has merely inherited
// the descriptor. s.mu is held.
func (s *session) noteKilledLocked(k *killedWriter) {
	if k.signal == unix.SIGPIPE && k.owner != s.who.Load().owner {
		return
	}
	if s.killed == nil || s.killed.wasStopped() || !k.wasStopped() {
		s.killed = k
	}
}

// dyingWait is how long a close waits for processes that are being killed.
const dyingWait = 2 * time.Second

// dyingPatience is how long one close goes on waiting for them.
type dyingPatience struct{ until time.Time }

// wait waits until the processes are dead, so that their FLUSHes have come; false if
// that takes too long.
func (d dyingPatience) wait(procs Procs, dying []lockmgr.Owner) bool {
	t := time.NewTimer(time.Until(d.until))
	defer t.Stop()
	for _, o := range dying {
		dead, stop, err := procs.Watch(o)
		if err != nil {
			return false
		}
		select {
		case <-dead:
			stop()
		case <-t.C:
			stop()
			return false
		}
	}
	return true
}

// addDying adds a process to a list if it is being killed, and its close is not the one
// that is looked at. Its descriptors are gone before it sends the FLUSH of each of them,
// which tells that it has not finished the file.
func (f *FS) addDying(list []lockmgr.Owner, pid int32, by *closer) []lockmgr.Owner {
	if by == nil || pid == by.owner.PID {
		return list // all have flushed, or this is its FLUSH
	}
	if sig, exiting := f.proc.Exit(uint32(pid)); sig == 0 || !exiting {
		return list
	}
	th, err := f.proc.Process(pid)
	if err != nil || !f.proc.Alive(th.Owner) {
		return list
	}
	return append(list, th.Owner)
}

// wasStopped reports whether the process was asked to stop, by somebody or by a
// limit, rather than killed outright or crashed.
func (k *killedWriter) wasStopped() bool {
	switch k.signal {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGALRM, unix.SIGXCPU:
		return true
	}
	return false
}

// isUnfinishedLocked reports whether the death of a writer keeps what it has written
// from becoming the file. s.mu is held.
func (s *session) isUnfinishedLocked() bool {
	switch {
	case s.killed == nil, s.settings.OnKill == policy.Commit:
		return false
	case s.settings.OnKill == policy.Rollback:
		return true
	case s.synced != (cacheStamp{}) && s.synced == s.stampLocked():
		return false
	case !s.isNew.Load():
		return true
	}
	// A new file exists from its first fsync on: nobody may lose what that has
	// acknowledged.
	return !s.killed.wasStopped() && s.synced == (cacheStamp{})
}

// stampLocked tells the content of the shadow from what it was; zero if that cannot
// be seen.
func (s *session) stampLocked() cacheStamp {
	var st unix.Stat_t
	if unix.Fstat(s.shadow.FD(), &st) != nil {
		return cacheStamp{}
	}
	return cacheStamp{size: st.Size, mtime: st.Mtim}
}

// stamped is stampLocked where s.mu is not held.
func (s *session) stamped() cacheStamp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stampLocked()
}

// deathLocked says who was killed. s.mu is held.
func (s *session) deathLocked() string {
	k := s.killed
	name := cmp.Or(k.program, "process")
	return fmt.Sprintf("%s[%d] was killed by %s before it closed %s", name, k.owner.PID, unix.SignalName(k.signal), s.path())
}

// concernDeadLocked makes the refusal one of what the killed process has written, of
// which size bytes were there: it concerns those to whom the process belonged. s.mu
// is held.
func (s *session) concernDeadLocked(x *refusals.Refusal, size int64) {
	x.Owner, x.Lineage = s.killed.owner, s.killed.lineage
	what := "nothing that it had written became the file"
	if size > 0 {
		what = "the " + sizeText(size) + " that it had written did not become the file"
	}
	if !s.isNew.Load() {
		what += ", which is still the earlier version"
	}
	x.Reason += ", so " + what
	if x.Kept != "" {
		x.Hint = "To make them the file after all: latchfs rejected restore " + x.Kept
	}
}

// toldLocked is what a close by a process is told of how the session ended. A close
// that finds that somebody else was killed is the opener's to hear of, not that of a
// bystander who has inherited the descriptor: a shell, a timeout, a sleep.
func (s *session) toldLocked(o lockmgr.Owner) unix.Errno {
	if s.abandoned && (s.output || o != s.opener) {
		return 0
	}
	if s.writtenLate() {
		return unix.ESTALE // nobody will find it in the file; RELEASE keeps it aside
	}
	return s.result
}

// noteDeath tells an event how the session's writer died, if it was killed.
func (s *session) noteDeath(ev *audit.Event) {
	if s.killed != nil {
		ev.Detail["killed_by"] = unix.SignalName(s.killed.signal)
	}
}

// sizeText writes a number of bytes for people: "12 bytes", "3.4 kB", "12 MB".
func sizeText(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	if n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, unit := float64(n)/1000, 0
	for v >= 999.5 && unit < 3 {
		v, unit = v/1000, unit+1
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, sizeUnits[unit])
	}
	return fmt.Sprintf("%.0f %s", v, sizeUnits[unit])
}

var sizeUnits = []string{"kB", "MB", "GB", "TB"}
