package records

import (
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/deaths"
	"latchfs/fs/printable"
	"latchfs/lockmgr"
)

// maxTakeOut is the size up to which a file is written anew without a record that stands
// between those of others.
const maxTakeOut = 64 << 20

// DropUnfinished takes the unfinished line of a process back that has died, with that thread
// as its last (DESIGN §4.4), and keeps it aside: nobody is left to finish it. What others have
// appended behind it stays.
func (a *Appender) DropUnfinished(d *deaths.Death, thread int32) {
	w := a.queue.Writer()
	if !a.c.wasWrittenBy(w.Thread, d.Owner, thread) {
		return
	}
	if rest := a.queue.TakeBack(w); len(rest) > 0 {
		a.c.Host.Keep(rest, unix.EINTR, fmt.Sprintf("%v before it finished a line that it appended to %s, so what there was of the line (%s) was kept out of the file",
			d, printable.Line(a.c.Host.Path()), deaths.Size(int64(len(rest)))))
	}
}

// wasWrittenBy reports whether the thread that has written last was one of the process o, of
// which thread is one.
func (c *Config) wasWrittenBy(writer uint32, o lockmgr.Owner, thread int32) bool {
	if writer == uint32(o.PID) || writer == uint32(thread) {
		return true
	}
	th, err := c.Procs.Process(int32(writer))
	return err == nil && th.Owner == o || err != nil && c.Owner == o
}

// hasOpen reports whether something of a line that is not finished was appended.
func (a *Appender) hasOpen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.open.IsNone()
}

// cutOpen takes that out of the file and returns it, nil if it cannot. The file's lock is
// held.
func (a *Appender) cutOpen() []byte {
	host := a.c.Host
	a.mu.Lock()
	defer a.mu.Unlock()
	var st unix.Stat_t
	if a.open.IsNone() || a.followLocked() != 0 || !a.open.IsIn(a.id) || !a.room.gaps.Follow(&a.open) || unix.Fstat(a.fd, &st) != nil {
		return nil
	}
	part := a.open.Content(a.fd)
	if part == nil {
		return nil
	}
	if start, ok := a.open.AtEnd(st.Size); ok {
		if err := a.tail.Truncate(start); err != nil {
			host.Errorf("%q ends in a line that its writer cannot finish, which cannot be cut off: %v", host.Path(), err)
			return nil
		}
		host.ShowEnd(a.id, a.fd, appends.Late)
	} else {
		if !a.takeOutLocked() {
			return nil
		}
		host.ShowAll(a.id)
	}
	a.open.Forget()
	a.growLocked(0)
	ch, _ := a.changeLocked(Truncated)
	tell(ch, a.fd)
	return part
}

// takeOutLocked writes the file anew without the record, which stands between those of
// others, and reports whether it could. Its inode stays, for others have it open to append,
// or to follow it. The file's lock is held.
func (a *Appender) takeOutLocked() bool {
	host := a.c.Host
	dir, name, ok := host.Name()
	if !ok || host.IsInSession() {
		return false
	}
	target, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if unix.Fstat(target, &st) != nil || a.id != idOf(&st) || st.Size > maxTakeOut {
		return false
	}
	err = host.Rewrite(target, &st, func(to int) error { return a.open.CopyRest(to, target, st.Size) })
	if err != nil {
		host.Warnf("%q keeps a line that its writer cannot finish: %v", host.Path(), err)
		return false
	}
	a.room.gaps.Add(&a.open)
	return true
}
