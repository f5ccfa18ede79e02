package standin

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// at is a time.
func at(sec int64) unix.Timespec { return unix.Timespec{Sec: sec, Nsec: 5} }

// file is the file that is replaced, and shadow what fstat(2) says of the shadow.
func file() *unix.Stat_t {
	return &unix.Stat_t{Dev: 3, Ino: 30, Nlink: 2, Size: 7, Mode: 0o600, Mtim: at(10), Ctim: at(11), Atim: at(12)}
}

func shadow() *unix.Stat_t {
	return &unix.Stat_t{Dev: 4, Ino: 40, Nlink: 0, Size: 8, Mode: 0o644, Mtim: at(20), Ctim: at(21), Atim: at(22)}
}

// want compares what is shown of the shadow, after a change of what want says.
func want(t *testing.T, when string, a *Attrs, change func(want *unix.Stat_t)) {
	t.Helper()
	got, want := shadow(), shadow()
	a.Adjust(got)
	change(want)
	if *got != *want {
		t.Errorf("%s: shown are\n%+v, want\n%+v", when, *got, *want)
	}
}

// Whoever looks at a shadow that is only being made sees what it is.
func TestNotYet(t *testing.T) {
	want(t, "nothing is known", &Attrs{}, func(*unix.Stat_t) {})
}

func TestShowNew(t *testing.T) {
	var a Attrs
	a.ShowNew()
	want(t, "a new file", &a, func(want *unix.Stat_t) { want.Nlink = 1 })
	if _, _, ok := a.File(); ok || a.Links() != 1 {
		t.Errorf("it stands for a file: %v; it has %d links", ok, a.Links())
	}
}

func TestStandFor(t *testing.T) {
	var a Attrs
	a.ShowNew()
	a.StandFor(file())
	want(t, "an existing file", &a, func(want *unix.Stat_t) { want.Dev, want.Ino, want.Nlink = 3, 30, 2 })
	if dev, ino, ok := a.File(); dev != 3 || ino != 30 || !ok || a.Links() != 2 {
		t.Errorf("it stands for %d:%d, %v; it has %d links", dev, ino, ok, a.Links())
	}
}

// The file's times are shown until the shadow is written, or its times are set.
func TestTimes(t *testing.T) {
	var a Attrs
	a.StandFor(file())
	files := func(want *unix.Stat_t) { want.Dev, want.Ino, want.Nlink = 3, 30, 2 }
	times := func(want *unix.Stat_t) { files(want); want.Mtim, want.Ctim = at(10), at(11) }
	a.ShowTimes(file(), at(20))
	want(t, "not written", &a, times)
	written := shadow()
	written.Mtim = at(23)
	if a.Adjust(written); written.Mtim != at(23) || written.Ctim != at(21) {
		t.Errorf("written: shown are %v and %v", written.Mtim, written.Ctim)
	}
	want(t, "seen as it was", &a, times)
	a.ShowOwnTimes()
	want(t, "its times were set", &a, files)
	like := shadow()
	like.Mtim = at(10)
	if a.Adjust(like); like.Mtim != at(10) || like.Ctim != at(21) {
		t.Errorf("its times were set to those of the file: shown are %v and %v", like.Mtim, like.Ctim)
	}

	a.StandFor(file())
	none := shadow()
	none.Mtim = unix.Timespec{}
	if a.Adjust(none); none.Mtim != (unix.Timespec{}) || none.Ctim != at(21) {
		t.Errorf("a time of zero: shown are %v and %v", none.Mtim, none.Ctim)
	}
}

// A change of one thing leaves the others.
func TestChanges(t *testing.T) {
	var a Attrs
	a.StandFor(file())
	a.ShowTimes(file(), at(20))
	a.SetLinks(1)
	want(t, "a name was taken away", &a, func(want *unix.Stat_t) {
		want.Dev, want.Ino, want.Nlink, want.Mtim, want.Ctim = 3, 30, 1, at(10), at(11)
	})
	a.SetNumber(5, 50)
	want(t, "it stands for another file", &a, func(want *unix.Stat_t) {
		want.Dev, want.Ino, want.Nlink, want.Mtim, want.Ctim = 5, 50, 1, at(10), at(11)
	})
	a.SetLinks(0)
	a.ShowOwnTimes()
	want(t, "the last name was taken away", &a, func(want *unix.Stat_t) { want.Dev, want.Ino = 5, 50 })
	if dev, ino, ok := a.File(); dev != 5 || ino != 50 || !ok || a.Links() != 0 {
		t.Errorf("it stands for %d:%d, %v; it has %d links", dev, ino, ok, a.Links())
	}
	a.ShowNew()
	want(t, "a new file", &a, func(want *unix.Stat_t) { want.Nlink = 1 })
}

// What is shown is replaced, and not changed under somebody who looks at it.
func TestChangesReplace(t *testing.T) {
	var a Attrs
	a.StandFor(file())
	for _, change := range []func(){
		func() { a.SetLinks(9) }, func() { a.SetNumber(9, 9) }, func() { a.ShowTimes(file(), at(9)) }, a.ShowOwnTimes, a.ShowNew,
		func() { a.StandFor(file()) },
	} {
		seen := a.now.Load()
		is := *seen
		if change(); *seen != is {
			t.Errorf("what was seen as %+v is %+v now", is, *seen)
		}
	}
}

// Whoever looks meanwhile sees all of one change, or nothing of it.
func TestLooksMeanwhile(t *testing.T) {
	var a Attrs
	a.StandFor(&unix.Stat_t{Dev: 1, Ino: 1})
	var done sync.WaitGroup
	done.Go(func() {
		for i := range uint64(1000) {
			a.SetNumber(i+1, i+1)
		}
	})
	for range 1000 {
		st := shadow()
		if a.Adjust(st); st.Dev != st.Ino {
			t.Fatalf("half of a number is shown: %d:%d", st.Dev, st.Ino)
		}
		if dev, ino, ok := a.File(); dev != ino || !ok {
			t.Fatalf("it stands for half of a file: %d:%d", dev, ino)
		}
	}
	done.Wait()
}

// Bits that the shadow has lost are shown, beside those that it has, until they are gone from the
// file as well.
func TestShowBits(t *testing.T) {
	var a Attrs
	a.StandFor(file())
	a.ShowBits(unix.S_ISUID)
	want(t, "setuid", &a, func(want *unix.Stat_t) {
		want.Dev, want.Ino, want.Nlink, want.Mode = 3, 30, 2, 0o4644
	})
	a.SetLinks(1)
	want(t, "links since", &a, func(want *unix.Stat_t) {
		want.Dev, want.Ino, want.Nlink, want.Mode = 3, 30, 1, 0o4644
	})
	a.ShowBits(0)
	want(t, "none", &a, func(want *unix.Stat_t) { want.Dev, want.Ino, want.Nlink = 3, 30, 1 })
}
