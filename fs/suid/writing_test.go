package suid

import (
	"testing"

	"golang.org/x/sys/unix"
)

func never(t *testing.T) func() bool {
	return func() bool {
		t.Helper()
		t.Error("asked for what does not matter")
		return false
	}
}

func yes() bool { return true }
func no() bool  { return false }

// fixed is the mode of a shadow with a mode after Fix.
func fixed(t *testing.T, w *Writing, mode uint32, isNew bool, isClean func() bool) uint32 {
	t.Helper()
	fd := fileOf(t, mode)
	if err := w.Fix(fd, isNew, isClean); err != nil {
		t.Fatal(err)
	}
	return modeOf(t, fd)
}

// writes is a session on a file with a mode, of a writer that may keep the bits or not.
func writes(mode uint32, keeps bool) *Writing {
	w := New(nobodysGroup)
	w.Keeps(keeps)
	w.Has(unix.S_IFREG | mode)
	return &w
}

const nobodysGroup = 4294967294 // of no file here

// A writer with CAP_FSETID gets back what passthrough has taken, and one without it loses
// what passthrough has left; it is not asked for what does not matter to it.
func TestFix(t *testing.T) {
	if got := fixed(t, writes(0o6755, true), 0o755, false, never(t)); got != 0o6755 {
		t.Errorf("root has written: %o", got)
	}
	if got := fixed(t, writes(0o644, true), 0o600, false, never(t)); got != 0o600 {
		t.Errorf("root has written a file without the bits: %o", got)
	}
	if got := fixed(t, writes(0o6755, false), 0o6755, false, no); got != 0o755 {
		t.Errorf("an ordinary user has written: %o", got)
	}
	if got := fixed(t, writes(0o6755, false), 0o6755, true, never(t)); got != 0o6755 {
		t.Errorf("an ordinary user has made the file: %o", got)
	}
	if got := fixed(t, writes(0o6755, false), 0o6755, false, yes); got != 0o6755 {
		t.Errorf("an ordinary user has changed other attributes: %o", got)
	}
}

// What the session itself has set stays, for a write since then has come to the shadow.
func TestModeThatWasSet(t *testing.T) {
	w := writes(0o644, false)
	w.SetMode(unix.S_IFREG|0o4755, yes)
	if got := fixed(t, w, 0o4755, false, no); got != 0o4755 {
		t.Errorf("an ordinary user has set it: %o", got)
	}
	w.Cut()
	if got := fixed(t, w, 0o4755, false, no); got != 0o755 {
		t.Errorf("and has cut the file since: %o", got)
	}

	w = writes(0o644, true)
	w.SetMode(0o4755, yes)
	w.Cut()
	if got := fixed(t, w, 0o755, false, never(t)); got != 0o4755 {
		t.Errorf("root has set it, and cut the file: %o", got)
	}
	w.CutByOrdinary()
	if got := fixed(t, w, 0o4755, false, no); got != 0o755 {
		t.Errorf("and somebody else has cut it: %o", got)
	}
}

// Whoever sets bits without CAP_FSETID does not keep them any more; that is asked only where
// there are any, and nobody gets it back by that.
func TestWhoSetsTheMode(t *testing.T) {
	w := writes(0o4755, true)
	w.SetMode(0o644, never(t))
	if got := fixed(t, w, 0o644, false, never(t)); got != 0o644 {
		t.Errorf("the bits are set off: %o", got)
	}
	w.SetMode(0o4711, no)
	if got := fixed(t, w, 0o711, false, no); got != 0o711 {
		t.Errorf("an ordinary user has set them: %o", got)
	}
	w.SetMode(0o2644, yes)
	if got := fixed(t, w, 0o644, false, no); got != 0o644 {
		t.Errorf("a writer that does not keep them: %o", got)
	}
}

// A set mode leaves the capabilities to be dropped.
func TestSetModeDropsCapabilities(t *testing.T) {
	w := writes(0o755, false)
	w.SetMode(0o4755, yes)
	fd := capable(t, fileOf(t, 0o4755))
	if err := w.Fix(fd, false, no); err != nil || isCapable(fd) || modeOf(t, fd) != 0o4755 {
		t.Errorf("%v; has capabilities: %v, mode %o", err, isCapable(fd), modeOf(t, fd))
	}
}

// What a write by an ordinary user has taken does not come back.
func TestKilled(t *testing.T) {
	w := writes(0o6755, true)
	w.Killed()
	if got := fixed(t, w, 0o755, false, never(t)); got != 0o755 {
		t.Errorf("%o", got)
	}
}

// While it is written a file has the bits that it has afterwards: those of a writer with
// CAP_FSETID, until somebody takes them.
func TestLeft(t *testing.T) {
	for _, c := range []struct {
		keeps bool
		then  func(w *Writing)
		want  uint32
	}{
		{true, func(*Writing) {}, 0o6000},
		{false, func(*Writing) {}, 0},
		{true, (*Writing).Cut, 0o6000},
		{true, (*Writing).Killed, 0},
		{true, (*Writing).CutByOrdinary, 0},
		{true, func(w *Writing) { w.SetMode(0o2755, yes) }, 0o2000},
		{true, func(w *Writing) { w.SetMode(0o2755, no) }, 0},
		{true, func(w *Writing) { w.SetOwner(&unix.Stat_t{Mode: unix.S_IFREG | 0o755}) }, 0},
	} {
		w := writes(0o6755, c.keeps)
		c.then(w)
		if got := w.Left(); got != c.want {
			t.Errorf("of a writer that keeps them (%v) %o are left, want %o", c.keeps, got, c.want)
		}
		if got := fixed(t, w, 0o755, false, yes); got != 0o755|c.want {
			t.Errorf("%o is left at the end, want %o", got, 0o755|c.want)
		}
	}
}

// chown(2) takes what a write takes, but for the setgid bit of a file that its group may not
// execute, whoever has that group.
func TestSetOwner(t *testing.T) {
	for _, c := range []struct{ had, is, want uint32 }{
		{0o6755, 0o755, 0o755},
		{0o2644, 0o644, 0o2644},
		{0o644, 0o2644, 0o2644},
		{0o4644, 0o644, 0o644},
	} {
		w := writes(c.had, true)
		w.SetOwner(&unix.Stat_t{Mode: unix.S_IFREG | c.is})
		if got := fixed(t, w, c.is, false, never(t)); got != c.want {
			t.Errorf("%o, which is %o after a chown: %o, want %o", c.had, c.is, got, c.want)
		}
	}
}

// The writer is in its own group, and in that of the setgid file that it replaces.
func TestGroups(t *testing.T) {
	setgid, plain := &unix.Stat_t{Mode: 0o2644, Gid: 7}, &unix.Stat_t{Mode: 0o644, Gid: 7}
	w := New(5)
	if !w.IsIn(5) || w.IsIn(7) || w.IsIn(0) {
		t.Error("a writer is not in its own group alone")
	}
	w.BeginOn(plain, func(uint32) bool { t.Error("asked for the group of a plain file"); return true })
	if w.IsIn(7) {
		t.Error("the writer is in a group that it was not asked for")
	}
	if !w.Loses(setgid) || w.Loses(plain) {
		t.Errorf("a stranger loses the bit: %v; what is not there: %v", w.Loses(setgid), w.Loses(plain))
	}
	asked := uint32(0)
	w.BeginOn(setgid, func(gid uint32) bool { asked = gid; return true })
	if asked != 7 || !w.IsIn(7) || !w.IsIn(5) || w.IsIn(8) {
		t.Errorf("asked for %d; in 7: %v, in 5: %v, in 8: %v", asked, w.IsIn(7), w.IsIn(5), w.IsIn(8))
	}
	if w.Loses(setgid) {
		t.Error("a member loses the bit")
	}
	suid := &unix.Stat_t{Mode: 0o4755, Gid: 7}
	if !w.Loses(suid) {
		t.Error("a member does not lose the setuid bit")
	}
	w.Keeps(true)
	if w.Loses(suid) {
		t.Error("a writer with CAP_FSETID loses the setuid bit")
	}
	w.BeginOn(setgid, nobody)
	if w.IsIn(7) {
		t.Error("no member, and in the group")
	}
}
