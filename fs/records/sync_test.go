package records

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What was appended is synced once, with the name of its file.
func TestSync(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if e := a.Sync(); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.wantTold()
		s.write(a, 10, "one\n")
		s.write(a, 10, "two\n")
		s.forget()
		for _, want := range [][]string{{"sync 2", "sync name"}, nil} {
			if e := a.Sync(); e != 0 {
				t.Errorf("errno %v", e)
			}
			s.wantTold(want...)
		}
	})
}

// What cannot be synced is tried again, and the host is told.
func TestSyncFails(t *testing.T) {
	for _, what := range []string{"file", "name"} {
		onStage(t, func(s *stage, a *Appender) {
			s.write(a, 10, "one\n")
			s.forget()
			err := &s.syncs
			want := []string{"sync 1", "not durable: " + errDisk.Error()}
			if what == "name" {
				err, want = &s.names, []string{"sync 1", "sync name", "not durable: " + errDisk.Error()}
			}
			*err = errDisk
			if e := a.Sync(); e != unix.EIO {
				t.Errorf("errno %v", e)
			}
			s.wantTold(want...)
			*err = nil
			if e := a.Sync(); e != 0 {
				t.Errorf("errno %v", e)
			}
			s.wantTold("sync 1", "sync name")
		})
	}
}

// What came meanwhile is not on the disk.
func TestSyncBesideAppend(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.during = func() { s.during = nil; s.write(a, 10, "two\n") }
		a.Sync()
		s.forget()
		a.Sync()
		s.wantTold("sync 2", "sync name")
	})
}

// Nor what went to another file, whose records are counted anew.
func TestSyncBesideSave(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.during = func() { s.during = nil; s.save("new\n"); s.write(a, 10, "two\n") }
		a.Sync()
		s.forget()
		a.Sync()
		s.wantTold("sync 1", "sync name")
	})
}

// A close syncs if the policy asks for that, and its error is the close's.
func TestDrainSyncs(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.full = true
		s.write(a, 10, "half")
		if e := a.Drain(); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.want("log", "old\nhalf")
		s.wantAlso("sync 1", 1)
		s.write(a, 10, "one\n")
		s.syncs = errDisk
		if e := a.Drain(); e != unix.EIO {
			t.Errorf("errno %v", e)
		}
		s.wantAlso("1 records, 4 bytes", 1)
	})
}

// After a close has failed the error that the queue had is told, not that of the sync.
func TestDrainTellsTheFirstError(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.full, s.syncs = true, errDisk
		s.write(a, 10, "one\nhalf")
		s.locked = true
		if e := a.Drain(); e != unix.ETIMEDOUT {
			t.Errorf("errno %v", e)
		}
	})
}

// fsync puts everything on disk: no line that was synced is taken back.
func TestFsync(t *testing.T) {
	for _, dataOnly := range []bool{false, true} {
		onStage(t, func(s *stage, a *Appender) {
			s.write(a, 10, "one\nhalf")
			if e := a.Fsync(dataOnly); e != 0 {
				t.Errorf("errno %v", e)
			}
			s.want("log", "old\none\nhalf")
			s.wantAlso("sync 2", 1)
			if (*end)(a).HasOpen() {
				t.Error("a line that was synced may be taken back")
			}
		})
	}
}

// The errors of an fsync are its program's.
func TestFsyncFails(t *testing.T) {
	for what, c := range map[string]struct {
		set  func(s *stage)
		want unix.Errno
	}{
		"of appending":      {func(s *stage) { s.locked = true }, unix.ETIMEDOUT},
		"of syncing":        {func(s *stage) { s.syncs = errDisk }, unix.EIO},
		"of what is stored": {func(s *stage) { s.reopens = errDisk }, unix.ENOSPC},
	} {
		onStage(t, func(s *stage, a *Appender) {
			s.write(a, 10, "one\nhalf")
			if _, e := a.Store([][]byte{[]byte("O")}, 0); e != 0 {
				t.Fatal(e)
			}
			c.set(s)
			if e := a.Fsync(true); e != c.want {
				t.Errorf("%s: errno %v", what, e)
			}
			if a.stored == (what == "of syncing") {
				t.Errorf("%s: what was stored is still to be synced: %v", what, a.stored)
			}
		})
	}
}

// What was stored is synced once.
func TestFsyncOfWhatIsStored(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		a.Store([][]byte{[]byte("O")}, 0)
		if e := a.Fsync(true); e != 0 || a.stored {
			t.Errorf("errno %v, and still to be synced: %v", e, a.stored)
		}
		s.reopens = errDisk
		if e := a.syncStored(); e != 0 {
			t.Errorf("what is synced already is synced again: errno %v", e)
		}
	})
}
