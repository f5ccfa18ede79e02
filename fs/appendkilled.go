package fs

import (
	"bytes"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// openRecord is the part of an unfinished line that is in the file already. What was
// synced does not belong to it, nor what is no text: nobody may lose that.
type openRecord struct {
	key        inoKey
	start, end int64
	at         time.Time // of its last piece
}

// recordPause is how long the pieces of one line may be apart. A piece whose writer
// is at work is itself held back for maxLineDelay.
const recordPause = 5 * maxLineDelay

// noteRecord notes what the append of b has left unfinished at the file's end.
func (a *appender) noteRecord(b []byte) {
	var st unix.Stat_t
	if len(b) == 0 || b[len(b)-1] == '\n' || !a.mayDrop(b) || unix.Fstat(a.fd, &st) != nil {
		a.open = openRecord{}
		return
	}
	begin := st.Size - int64(len(b))
	i := bytes.LastIndexByte(b, '\n')
	goesOn := a.open.key == a.key && a.open.end == begin && st.Size-a.open.start <= maxLine && time.Since(a.open.at) < recordPause
	if i >= 0 || !goesOn {
		a.open = openRecord{key: a.key, start: begin + int64(i) + 1}
	}
	a.open.end, a.open.at = st.Size, time.Now()
}

// mayDrop reports whether bytes may be taken back that do not end in a newline: text
// that is not synced as it is written.
func (a *appender) mayDrop(b []byte) bool {
	return a.h.flags&(unix.O_SYNC|unix.O_DSYNC) == 0 && bytes.IndexByte(b, 0) < 0
}

// dropUnfinished takes the unfinished record of the sender of a FLUSH back that is
// dying by SIGKILL or a crash (DESIGN §4.4): nobody is left to finish the line. What
// others have appended behind it is not touched, and then it stays.
func (a *appender) dropUnfinished(c *caller) {
	f := a.f
	if c.foreign() {
		return
	}
	sig, _ := f.proc.Exit(uint32(c.tid))
	if sig == 0 || f.settings(f.nodePath(a.h.n)).OnKill == policy.Commit {
		return
	}
	k := killedWriterOf(c, sig)
	if k.wasStopped() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.wasWrittenBy(c) {
		return
	}
	i := bytes.LastIndexByte(a.buf, '\n')
	rest := bytes.Clone(a.buf[i+1:])
	if !a.mayDrop(rest) {
		return
	}
	a.buf = a.buf[:i+1]
	a.due = min(a.due, len(a.buf))
	a.waitLocked()
	if i < 0 && !a.busy {
		rest = append(a.cutOpenLocked(), rest...)
	}
	if len(rest) > 0 {
		a.keepBytes(rest, unix.EINTR, fmt.Sprintf("%s[%d] was killed by %s before it finished the line", k.program, k.owner.PID, unix.SignalName(k.signal)), nil)
	}
}

// wasWrittenBy reports whether the last write was the caller's process's.
func (a *appender) wasWrittenBy(c *caller) bool {
	if a.writer == uint32(c.owner.PID) || a.writer == uint32(c.tid) {
		return true
	}
	th, err := a.f.proc.Thread(a.writer)
	return err == nil && th.Owner == c.owner || err != nil && a.c.owner == c.owner
}

// cutOpenLocked cuts the record that is not finished off the file, if it is the
// file's end, and returns it.
func (a *appender) cutOpenLocked() []byte {
	if a.open == (openRecord{}) {
		return nil
	}
	l := a.lockSoon()
	if l == nil {
		return nil
	}
	defer a.f.table.Release(l)
	var st unix.Stat_t
	if a.followLocked() != 0 || a.key != a.open.key || unix.Fstat(a.fd, &st) != nil || st.Size != a.open.end {
		return nil
	}
	part := make([]byte, a.open.end-a.open.start)
	if n, err := unix.Pread(a.fd, part, a.open.start); err != nil || n != len(part) {
		return nil
	}
	if err := a.tail.Truncate(a.open.start); err != nil {
		a.f.log.Errorf("%q ends in a line that its writer cannot finish, which cannot be cut off: %v", a.f.nodePath(a.h.n), err)
		return nil
	}
	a.open = openRecord{}
	a.noteGrowth(0)
	a.noteCut()
	a.tellKernel(true)
	return part
}

// lockSoon takes the file's lock if that is possible soon: a dying process must not
// wait for long.
func (a *appender) lockSoon() *lockmgr.Lock {
	for range 50 {
		if l, err := a.f.acquire(a.demand(), true); err == nil {
			return l
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
