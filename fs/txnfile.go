package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/judge"
	"latchfs/fs/sessionstate"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
)

// txnFile is a session as its transaction needs it.
type txnFile struct {
	t *txn
	s *session
}

var _ transaction.File = txnFile{}

// Path implements transaction.File.
func (tf txnFile) Path() string { return tf.s.path() }

// Lock implements transaction.File.
func (tf txnFile) Lock() { tf.s.mu.Lock() }

// Unlock implements transaction.File.
func (tf txnFile) Unlock() { tf.s.mu.Unlock() }

// Judge implements transaction.File.
func (tf txnFile) Judge() error {
	err := tf.askValidators()
	var conflict *commit.ConflictError
	if err == nil || errors.As(err, &conflict) { // a conflict is found again
		return nil
	}
	return errors.New(judge.Reason(err))
}

// askValidators asks the validators about what the session changes, and notes what they have
// seen.
func (tf txnFile) askValidators() error {
	s := tf.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	asked := false
	if s.state.Is(sessionstate.Writing) && s.changedInTxn() && s.fillLocked() == 0 {
		asked, err = s.judged.Judge(tf.t.judging.judge, sessionDraft{tf.t.commits, s})
	}
	if !asked {
		s.judged.Clear()
	}
	return err
}

// Check implements transaction.File: it makes decideLocked's checks.
func (tf txnFile) Check() error {
	s := tf.s
	if !s.state.Is(sessionstate.Writing) {
		return errors.New("its session has ended")
	}
	if !s.changedInTxn() {
		return nil
	}
	if !s.judged.Stands(tf.t.judging.judge, sessionDraft{tf.t.commits, s}) {
		return judge.ErrUnsettled
	}
	if e, reason := tf.t.commits.checkLocked(s); e != 0 {
		return errors.New(reason)
	}
	return nil
}

// InPlace implements transaction.File.
func (tf txnFile) InPlace() bool { return tf.s.inPlace }

// Changed implements transaction.File.
func (tf txnFile) Changed() bool { return tf.s.changedInTxn() }

// Prepare implements transaction.File.
func (tf txnFile) Prepare() error {
	s := tf.s
	dir, name := s.where()
	o := tf.t.commits.publishOptions(s, dir, name)
	s.next = tf.t.recorder.commitStep(s, dir, name)
	if !s.inPlace {
		s.next.KeepAloneNow()
	}
	o.Keep = s.next.Keep()
	err := tf.put(o)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, commit.ErrConflict):
		return fmt.Errorf("the file was changed outside the mount: %w", err)
	}
	return fmt.Errorf("commit failed: %w", err)
}

// put hands the session's shadow to the transaction of the store.
func (tf txnFile) put(o commit.PublishOptions) error {
	s, store := tf.s, tf.t.store
	if !s.inPlace {
		return store.Put(s.shadow, o)
	}
	target, err := unix.Openat(o.Dir, o.Name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return store.PutInPlace(s.shadow, target, o)
}

// MarkSaved implements transaction.File.
func (tf txnFile) MarkSaved() (undo func()) { return tf.t.names.markSaved(tf.s) }

// EndPublished implements transaction.File.
func (tf txnFile) EndPublished(err error) {
	s := tf.s
	changed := s.changedInTxn()
	s.become(sessionstate.Ending)
	var e unix.Errno
	if err != nil {
		e = unix.EIO
	}
	var st unix.Stat_t
	if changed && tf.statPublished(&st) == nil {
		s.saved.Publish(content.StampOf(&st))
		dir, name := s.where()
		ch := tf.t.recorder.changesOf(s, s.operation(), dir, name)
		ch.Was, ch.Is, ch.Err, ch.Txn = statOf(s.baseVersion), &st, err, s.txn.Load().Label()
		ch.Step, ch.Kept = s.next, s.shadow.Kept()
		tf.t.recorder.changes.Tell(ch)
	}
	if s.inPlace && s.base != nil {
		base := s.base
		go tf.t.kernel.notifyInode(base, 0, -1)
	}
	tf.t.commits.endAs(s, sessionstate.Committed, e)
}

// statPublished looks at what the session has published: its shadow, or the file that
// was written in place.
func (tf txnFile) statPublished(st *unix.Stat_t) error {
	s := tf.s
	if !s.inPlace {
		return unix.Fstat(s.shadow.FD(), st)
	}
	dir, name := s.where()
	return unix.Fstatat(tf.t.nodes.fdOf(dir), name, st, unix.AT_SYMLINK_NOFOLLOW)
}

// Rollback implements transaction.File.
func (tf txnFile) Rollback(reason string) {
	s := tf.s
	switch {
	case s.state.HasEnded():
		return
	case s.state.Is(sessionstate.Detached):
		tf.t.commits.endAs(s, sessionstate.Dropped, 0)
		return
	}
	s.become(sessionstate.Ending)
	var e unix.Errno
	if s.changedInTxn() {
		e = tf.t.commits.rejectLocked(s, unix.ECANCELED, "the transaction was rolled back: "+reason)
	} else {
		tf.t.disk.discard(s.shadow)
	}
	tf.t.commits.endAs(s, sessionstate.RolledBack, e)
}
