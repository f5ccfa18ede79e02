package records

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/sys"
)

// A Cut is an ftruncate(2).
type Cut struct {
	Size int64
	appends.Writer
	By Cutter
}

// A Cutter is the process that cuts.
type Cutter interface {
	// MayLose decides whether it may lose what others have saved since the descriptor was
	// used at a time, with a file that had that identity: of the file is all that is behind
	// size is cut off.
	MayLose(at time.Time, used ID, is *unix.Stat_t, size int64) unix.Errno
}

// barredFor is how long nothing is appended through a descriptor after the refusal of a cut.
// Programs that do not look at the answer of their ftruncate write at once.
const barredFor = 2 * time.Second

// afterRefusedCut says why it is not.
const afterRefusedCut = "The program was refused to cut the file through this descriptor a moment ago, and what it writes was meant to replace what is there"

// A refusedCut is a cut that was not made, so that what was to follow it would come behind
// what it was to replace.
type refusedCut struct {
	e  unix.Errno // 0: there is none
	at time.Time
}

// answer is what somebody is told who appends after it.
func (r refusedCut) answer() unix.Errno {
	if r.e != 0 && time.Since(r.at) < barredFor {
		return r.e
	}
	return 0
}

// Truncate is ftruncate on the descriptor (logrotate's copytruncate). It keeps the inode,
// which others follow. All else is as of a truncate(2): what others have saved since the
// descriptor was last used is not lost without a word, and what is cut off is a version.
func (a *Appender) Truncate(c *Cut) (e unix.Errno) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refused = refusedCut{}
		if e == unix.EBUSY || e == unix.EBADMSG {
			a.refused = refusedCut{e, time.Now()}
		}
	}()
	host := a.c.Host
	own := func() (unix.Errno, bool) { return host.TruncateOwn(c) }
	return a.changeAsIs(c.Writer, own, func(token uint64) unix.Errno {
		if e := host.JudgeCut(a.fd, c.Size); e != 0 {
			return e
		}
		if e := a.mayCutLocked(c); e != 0 {
			return e
		}
		if e := a.cutLocked(token, c.Size); e != 0 {
			return e
		}
		if c.KillSuid {
			return host.KillSuid(a.id, a.fd, c.UID, c.GID)
		}
		return 0
	})
}

// changeAsIs has change make something of the file that has the name, as it is with all that
// was appended. The lock of its name, with that token, is held meanwhile; EBUSY if somebody
// has it. A session of the opener's own would replace what is changed here: own makes the
// change there, if there is one.
func (a *Appender) changeAsIs(w appends.Writer, own func() (e unix.Errno, done bool), change func(token uint64) unix.Errno) unix.Errno {
	a.queue.Flush(appends.Late)
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, done := own(); done {
		return e
	}
	token, unlock, err := a.c.Host.TryLock(w)
	if err != nil {
		return unix.EBUSY
	}
	defer unlock()
	if e := a.followLocked(); e != 0 {
		return e
	}
	return change(token)
}

// mayCutLocked decides whether the file may be cut. What has no name any more nobody else can
// lose.
func (a *Appender) mayCutLocked(c *Cut) unix.Errno {
	var st unix.Stat_t
	if !a.named || unix.Fstat(a.fd, &st) != nil {
		return 0
	}
	return c.By.MayLose(a.used, a.usedID, &st, c.Size)
}

// cutLocked cuts the file to size bytes. The lock of its name, with that token, is held.
func (a *Appender) cutLocked(token uint64, size int64) unix.Errno {
	defer a.growLocked(0)
	ch, was := a.changeLocked(Truncated)
	if ch != nil && size < was.Size {
		a.restLocked() // the version that ends here grows no more
		ch.Keep(token, a.fd)
	}
	if err := a.tail.Truncate(size); err != nil {
		if ch != nil {
			ch.Drop()
		}
		return sys.Errno(err)
	}
	tell(ch, a.fd)
	return 0
}
