package commit

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// mark is the state of a shadow that counts as unchanged.
type mark struct {
	set          bool
	size         int64
	mtime, ctime unix.Timespec
	moved        bool          // mtime is not original, but a nanosecond before it
	original     unix.Timespec // mtime as it was
}

// tick bounds from above how long the clock of file timestamps stands still, and how far it
// is behind the one that tells the time.
const tick = 10_000_000 // ns: CONFIG_HZ=100

// Mark declares the present content unchanged: Dirty is false until the next
// write, truncation, fallocation or store through a mapping. It must not be
// called while the file is mapped for writing, for stores into pages that are
// dirty already leave no trace.
//
// The clock of file timestamps is coarse. If the modification time lies within
// the current tick, a write could leave it as it is, so Mark sets it back by one
// nanosecond; Publish and InPlace undo that if nothing was written.
func (sh *Shadow) Mark() error {
	var st unix.Stat_t
	if err := unix.Fstat(sh.fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	m := mark{set: true}
	switch {
	case sh.anew && st.Size == 0:
		// What is written makes it longer, and a new file that stays empty is published all
		// the same.
	case sh.mark.moved && st.Mtim == sh.mark.mtime:
		m.moved, m.original = true, sh.mark.original // set back already
	case st.Mtim.Nano() >= time.Now().UnixNano()-2*tick:
		m.moved, m.original = true, st.Mtim
		back := unix.NsecToTimespec(st.Mtim.Nano() - 1)
		err := sh.s.disk.Do("utimens", func() error { return disk.Futimens(sh.fd, [2]unix.Timespec{disk.Omit, back}) })
		if err != nil {
			return err
		}
		if err := unix.Fstat(sh.fd, &st); err != nil {
			return os.NewSyscallError("fstat", err)
		}
	}
	m.size, m.mtime, m.ctime = st.Size, st.Mtim, st.Ctim
	sh.mark = m
	return nil
}

// Dirty reports whether the shadow has changed since Mark, judged from its
// size, mtime and ctime: passthrough hides the writes themselves. A change of
// metadata counts as well; whoever makes one on a clean shadow and does not want
// it counted calls Mark again. Without a Mark it is true.
func (sh *Shadow) Dirty() (bool, error) {
	if !sh.mark.set {
		return true, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(sh.fd, &st); err != nil {
		return true, os.NewSyscallError("fstat", err)
	}
	return st.Size != sh.mark.size || st.Mtim != sh.mark.mtime || st.Ctim != sh.mark.ctime, nil
}

// settledStat returns the shadow's status. If Mark has moved its modification time, and
// nothing has been written since, it gets the original one back before.
func (sh *Shadow) settledStat() (st unix.Stat_t, err error) {
	if err := unix.Fstat(sh.fd, &st); err != nil {
		return st, os.NewSyscallError("fstat", err)
	}
	if !sh.mark.moved || st.Mtim != sh.mark.mtime {
		return st, nil
	}
	sh.mark.moved = false
	st.Mtim = sh.mark.original
	return st, sh.s.disk.Do("utimens", func() error { return disk.Futimens(sh.fd, [2]unix.Timespec{disk.Omit, sh.mark.original}) })
}
