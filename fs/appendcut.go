package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// truncate is ftruncate on an append descriptor (logrotate's copytruncate). It keeps the inode,
// which others follow. All else is as of a truncate(2): what others have saved since the
// descriptor was last used is not lost without a word, and what is cut off is a version.
func (a *appender) truncate(in *SetAttrRequest, size int64) unix.Errno {
	a.queue.Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.ownSession(); s != nil { // its commit would replace what is cut here
		e := s.mayCut(size)
		if e == 0 {
			e = s.truncate(size, in.Set&SetKillSuid != 0)
		}
		if e != unix.ESTALE {
			return e
		}
	}
	l, err := a.f.acquire(a.demand(), true)
	if err != nil {
		return unix.EBUSY
	}
	defer a.f.table.Release(l)
	if e := a.followLocked(); e != 0 {
		return e
	}
	if e := a.judgeCut(size); e != 0 {
		return e
	}
	if e := a.mayCut(&in.Request, size); e != 0 {
		return e
	}
	if e := a.cutLocked(l, size); e != 0 {
		return e
	}
	if in.Set&SetKillSuid != 0 {
		return a.killSuidLocked(in.UID, in.GID)
	}
	return 0
}

// cutLocked cuts the file to size bytes. The lock l of its name is held.
func (a *appender) cutLocked(l *lockmgr.Lock, size int64) unix.Errno {
	f := a.f
	defer a.noteGrowth(0)
	ch := a.changes(opTruncate)
	if ch != nil && size < ch.Was.Size {
		ch.Token, ch.Silent = l.Token(), false
		a.noteRest() // the version that ends here grows no more
		a.keepVersion(ch)
	}
	if err := a.tail.Truncate(size); err != nil {
		if ch != nil && ch.Kept {
			if err := f.store.DropCopy(ch.Step.Keep().ID); err != nil {
				f.log.Warnf("a copy of %q is in the history twice: %v", ch.Path, err)
			}
		}
		return errnoOf(err)
	}
	a.tell(ch)
	return 0
}

// keepVersion puts a copy of the file, of which a part is about to be cut off, into the history.
func (a *appender) keepVersion(ch *change) {
	f, at := a.f, ch.Name.(changedName)
	f.paths.RLock()
	defer f.paths.RUnlock()
	path := at.Path()
	ch.Step = f.step(at.dir, at.name, path, f.settings(path), ch.Was)
	ch.Step.InPlace(ch.Was)
	if id := ch.Step.Keep().ID; id != "" {
		ch.Kept = f.store.KeepCopy(a.fd, id) == nil
	}
}

// use notes that the program uses the descriptor, and has to do with what the file holds now.
func (a *appender) use() {
	a.mu.Lock()
	a.used = time.Now()
	a.mu.Unlock()
}

// mayCut decides whether a process may cut the file to size bytes through the descriptor. What
// has no name any more nobody else can lose.
func (a *appender) mayCut(in *Request, size int64) unix.Errno {
	f := a.f
	var st unix.Stat_t
	dir, name := f.nameOf(a.h.n)
	if dir == nil || !a.named || unix.Fstat(a.fd, &st) != nil {
		return 0
	}
	ch := lostupdate.Change{Op: opTruncate}
	if size < st.Size && !a.c.foreign() {
		ch.Use = &knowledge.Use{
			At: a.used, Dev: a.usedKey.dev, Ino: a.usedKey.ino, By: []lockmgr.Owner{a.c.owner, f.callerOf(in).owner},
		}
	}
	x, e := f.loss(a.c, ch, place{dir, name, a.h.n}, &st)
	if x == nil {
		return e
	}
	return errnoFor(x.Answer())
}
