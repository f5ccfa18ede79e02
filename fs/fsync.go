package fs

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/sessionstate"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// An fsync makes the shadow durable, and publishes nothing. The shadow gets a
// hidden name at the first one, and an intent in the journal: should the daemon die before
// the close, the next one finds the bytes, and knows whose they are.

// fsync is fsync(2) on a descriptor of the session's file, which has the shadow open as fd.
func (en *endings) fsync(s *session, h *handle, fd int, dataOnly bool) unix.Errno {
	s.mu.Lock()
	lost := s.state.HasEnded() && s.writtenLate()
	s.mu.Unlock()
	if lost {
		return unix.ESTALE
	}
	if e := en.robbed(s, opFsync); e != 0 {
		return e
	}
	before := s.stamped()
	err := en.secure(s, fd)
	if err == nil {
		err = en.sync(s, fd, dataOnly)
	}
	if err != nil {
		s.mu.Lock()
		s.content.Fail(errnoOf(err))
		s.mu.Unlock()
		return errnoOf(err)
	}
	if en.syncedAgain(s, before) && h.flags&unix.O_ACCMODE == unix.O_RDWR {
		return en.commits.autoLive(s, "synced again after more writes")
	}
	return en.robbed(s, opFsync)
}

// robbed tells the writer that its lock was stolen, if so: what it writes will not be published.
// A program may look at what fsync says, and not at its close.
func (en *endings) robbed(s *session, op string) unix.Errno {
	s.mu.Lock()
	stolen := !s.state.HasEnded() && errors.Is(s.lock.Err(), lockmgr.ErrStolen)
	s.mu.Unlock()
	if !stolen {
		return 0
	}
	en.locks.settleThefts(nil) // the thief may be about to say who it was
	en.locks.explainTheft(s, op, unix.ESTALE)
	return unix.ESTALE
}

// sync makes what was written durable, and what the journal says of it at the first time.
func (en *endings) sync(s *session, fd int, dataOnly bool) error {
	s.mu.Lock()
	shadow := s.shadow
	known, recorded, as := s.saved.IsRecorded() || !shadow.Secured(), shadow.Recorded(), shadow.Stamped()
	s.mu.Unlock()
	if known {
		return en.disk.store.Sync(fd, dataOnly)
	}
	err := en.disk.store.SyncSecured(fd, recorded)
	if err == nil {
		s.mu.Lock()
		s.saved.Record(true)
		shadow.SyncDone(recorded, as)
		s.mu.Unlock()
	}
	return err
}

// secure sees to it that a recovery keeps what is about to be synced.
func (en *endings) secure(s *session, fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !en.needsSecuringLocked(s) {
		return nil
	}
	a, err := s.shadow.Announce(en.syncOptionsLocked(s))
	if err != nil {
		return err
	}
	s.mu.Unlock() // for it may take long
	if a != nil {
		err = a.WriteBack(fd)
	} else {
		err = en.disk.store.WriteBack(fd)
	}
	s.mu.Lock()
	if err != nil || !en.needsSecuringLocked(s) {
		return errors.Join(err, a.Drop())
	}
	return s.shadow.Secure(en.syncOptionsLocked(s), a)
}

// syncOptionsLocked is what a recovery has to know of the session.
func (en *endings) syncOptionsLocked(s *session) commit.SyncOptions {
	dir, name := s.where()
	return commit.SyncOptions{
		Dir: en.nodes.fdOf(dir), DirPath: en.nodes.nodePath(dir), Name: name, Token: s.lock.Token(), Appears: en.mayAppearLocked(s),
	}
}

// needsSecuringLocked reports whether the session has changed what nobody else has.
func (en *endings) needsSecuringLocked(s *session) bool {
	if !s.state.Is(sessionstate.Writing) || s.shadow.Secured() {
		return false
	}
	dirty, err := s.content.Dirty()
	return s.isNew.Load() || dirty || err != nil
}

// mayAppearLocked reports whether the shadow may become the new file without anybody's
// further look at it.
func (en *endings) mayAppearLocked(s *session) bool {
	return s.isNew.Load() && s.txn.Load() == nil && !s.writing.Merges() && s.content.Failed() == 0 &&
		!en.judging.judges(s) && s.settings.OnKill != policy.Rollback && en.locks.renewForCommit(s)
}

// syncedAgain notes that an fsync has made durable what the shadow was like when it
// began, and reports whether there was an earlier one with writes between them: what
// a database does, not a program that saves a file. A new file that stays open after
// an fsync appears.
func (en *endings) syncedAgain(s *session, now content.Stamp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() || now.IsZero() {
		return false
	}
	again := s.saved.Sync(now)
	en.appearLocked(s, syncedWait, "synced and still open")
	return again
}
