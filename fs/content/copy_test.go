package content

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// errBroken is what a disk says that fails.
var errBroken = errors.New("broken")

// shadow is a shadow of which the test says whether it was written. It notes what is asked of
// it.
type shadow struct {
	dirty, fails bool
	asked        []string
}

func (s *shadow) ask(format string, args ...any) error {
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
	if s.fails {
		return errBroken
	}
	return nil
}

// FillTo implements Shadow. What is filled in is written.
func (s *shadow) FillTo(base int, size int64) error {
	s.dirty = true
	return s.ask("fill from %d to %d", base, size)
}

// Mark implements Shadow.
func (s *shadow) Mark() error {
	s.dirty = false
	return s.ask("mark")
}

// Dirty implements Shadow.
func (s *shadow) Dirty() (bool, error) { return s.dirty, s.ask("dirty") }

// want compares what was asked since the last time.
func (s *shadow) want(t *testing.T, when string, asked ...string) {
	t.Helper()
	if !slices.Equal(s.asked, asked) {
		t.Errorf("%s: asked for %q, want %q", when, s.asked, asked)
	}
	s.asked = nil
}

// begun is the content of a session, with its shadow, which is filled or not.
func begun(filled bool) (*Copy, *shadow) {
	c, s := New(), &shadow{}
	c.Begin(s)
	if filled {
		c.NoteFilled()
	}
	return &c, s
}

// is compares whether the content counts as changed.
func is(t *testing.T, when string, c *Copy, dirty bool) {
	t.Helper()
	if got, err := c.Dirty(); got != dirty || err != nil || c.IsClean() == dirty {
		t.Errorf("%s: dirty: %v, %v; clean: %v", when, got, err, c.IsClean())
	}
}

func TestNew(t *testing.T) {
	c := New()
	if c.IsFilled() || c.Old() >= 0 || c.IsChanged() || c.HasWritten() || c.HasMeta() || c.Failed() != 0 {
		t.Errorf("%+v", c)
	}
	is(t, "without a shadow", &c, false)
	c.CloseOld()
}

// A shadow is filled once, before the first change, and as far as that needs it.
func TestFill(t *testing.T) {
	c, s := begun(false)
	c.FillFrom(7)
	if c.Old() != 7 || c.IsFilled() {
		t.Errorf("reads %d, filled %v", c.Old(), c.IsFilled())
	}
	s.dirty = true
	is(t, "not filled", c, false) // its times tell nothing
	s.want(t, "not filled")

	if err := c.FillTo(12); err != nil || !c.IsFilled() || c.Old() != 7 {
		t.Errorf("%v; filled %v, reads %d", err, c.IsFilled(), c.Old())
	}
	s.want(t, "the first change", "fill from 7 to 12", "mark")
	is(t, "filled", c, false)
	s.asked = nil
	if err := c.FillTo(5); err != nil {
		t.Error(err)
	}
	s.want(t, "the next change")
}

// Who could not be filled is tried again.
func TestFillFails(t *testing.T) {
	c, s := begun(false)
	c.FillFrom(7)
	s.fails = true
	if err := c.FillTo(12); err != errBroken || c.IsFilled() {
		t.Errorf("%v; filled %v", err, c.IsFilled())
	}
	s.want(t, "it fails", "fill from 7 to 12")
	s.fails = false
	if err := c.FillTo(12); err != nil || !c.IsFilled() {
		t.Errorf("%v; filled %v", err, c.IsFilled())
	}
	s.want(t, "it succeeds", "fill from 7 to 12", "mark")
}

// markFails is a shadow that can be filled, and not marked.
type markFails struct{ shadow }

func (*markFails) Mark() error { return errBroken }

func TestMarkFails(t *testing.T) {
	c := New()
	c.Begin(&markFails{})
	c.FillFrom(7)
	if err := c.FillTo(1); err != errBroken || c.IsFilled() {
		t.Errorf("%v; filled %v", err, c.IsFilled())
	}
	c.NoteFilled()
	if err := c.AfterMeta(); err != errBroken {
		t.Error(err)
	}
	if err := c.Mark(); err != errBroken {
		t.Error(err)
	}
}

// The old file is closed once, and read no more.
func TestCloseOld(t *testing.T) {
	c, _ := begun(false)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	c.FillFrom(p[0])
	c.CloseOld()
	if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("it is open: %v", err)
	}
	if c.Old() != -1 {
		t.Errorf("reads %d", c.Old())
	}
	again, err := unix.FcntlInt(uintptr(p[1]), unix.F_DUPFD_CLOEXEC, p[0]) // the number is another file's
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	c.CloseOld()
	if _, err := unix.FcntlInt(uintptr(again), unix.F_GETFD, 0); err != nil {
		t.Errorf("what has the number now was closed: %v", err)
	}
}

// What counts as a change: a write of the daemon, a cut by the open, and what the shadow tells
// of writes past the daemon.
func TestDirty(t *testing.T) {
	c, s := begun(true)
	is(t, "filled", c, false)
	s.want(t, "filled", "dirty", "dirty")
	s.dirty = true
	is(t, "written past the daemon", c, true)
	if c.IsChanged() || c.HasWritten() {
		t.Error("that is known without a look")
	}
	s.fails = true
	if _, err := c.Dirty(); err != errBroken || c.IsClean() {
		t.Errorf("%v; clean: %v", err, c.IsClean())
	}
	s.dirty = false
	if c.IsClean() {
		t.Error("nobody can see whether it was written, and it is clean")
	}

	c, s = begun(true)
	c.Write()
	is(t, "written by the daemon", c, true)
	s.want(t, "written by the daemon")
	if !c.IsChanged() || !c.HasWritten() {
		t.Errorf("%+v", c)
	}

	c, _ = begun(false)
	c.Replace()
	is(t, "cut by the daemon", c, true)
	if !c.IsFilled() || !c.HasWritten() {
		t.Errorf("%+v", c)
	}
}

// An open that truncates makes a change if that takes anything from the file.
func TestBeginCut(t *testing.T) {
	for _, changes := range []bool{false, true} {
		c, _ := begun(false)
		c.BeginCut(changes)
		if c.IsChanged() != changes || !c.IsFilled() || c.HasWritten() {
			t.Errorf("a cut that changes something, %v: %+v", changes, c)
		}
		is(t, fmt.Sprintf("a cut that changes something, %v", changes), c, changes)
		if !c.IsUntouched() {
			t.Error("the open has touched it")
		}
	}
}

// What the open did that began the session is no touch; what came after it is.
func TestIsUntouched(t *testing.T) {
	c, s := begun(false)
	if !c.IsUntouched() {
		t.Error("nothing was done")
	}
	s.dirty = true
	if c.IsUntouched() {
		t.Error("it was written past the daemon")
	}
	s.dirty, s.fails = false, true
	if c.IsUntouched() {
		t.Error("nobody can see whether it was written")
	}
	s.fails = false
	c.Write()
	if c.IsUntouched() {
		t.Error("the daemon has written it")
	}
}

// What was published is what is changed next; mappings write without a trace.
func TestGoOn(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		c, s := begun(true)
		c.BeginCut(true)
		c.Write()
		c.NoteMeta(func(int) error { return nil })
		c.GoOn(mapped)
		if c.HasMeta() || c.IsChanged() != mapped || c.HasWritten() != mapped || !c.IsFilled() {
			t.Errorf("mapped %v: %+v", mapped, c)
		}
		s.dirty = true
		if err := c.Mark(); err != nil {
			t.Error(err)
		}
		is(t, fmt.Sprintf("mapped %v", mapped), c, mapped)
	}
}

// A write that is missing is remembered, whatever comes after it.
func TestFail(t *testing.T) {
	c, _ := begun(true)
	c.Fail(unix.ENOSPC)
	c.Write()
	c.GoOn(false)
	if c.Failed() != unix.ENOSPC {
		t.Errorf("failed: %v", c.Failed())
	}
}

// The old file of a shadow that was never filled is the caller's, who closes it. That of a filled
// one is closed.
func TestTakeOld(t *testing.T) {
	for _, filled := range []bool{false, true} {
		c, s := begun(false)
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		c.FillFrom(p[0])
		if filled {
			c.NoteFilled()
		}
		fd, ok := c.TakeOld()
		_, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETFD, 0)
		if ok == filled || ok != (fd == p[0]) || ok != (err == nil) {
			t.Errorf("filled %v: %d, %v; the old file: %v", filled, fd, ok, err)
		}
		if _, again := c.TakeOld(); again || c.Old() >= 0 {
			t.Errorf("filled %v: it is taken twice", filled)
		}
		s.asked = nil
		if err := c.FillTo(12); err != nil || len(s.asked) > 0 {
			t.Errorf("filled %v: without the old file: %v, %q", filled, err, s.asked)
		}
		for _, fd := range p {
			unix.Close(fd)
		}
	}
}
