package sessionstate

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// in is a session in a state, whatever led there.
func in(st State) *Machine {
	m := New()
	m.now = st
	return &m
}

func TestBegins(t *testing.T) {
	m := New()
	if !m.Is(Writing) || m.HasEnded() || m.IsNobodys() || m.Result() != 0 {
		t.Errorf("a new session is %v, with the result %v", &m, m.Result())
	}
	select {
	case <-m.Freed():
		t.Error("its lock is free")
	default:
	}
}

// Each step is taken; one that is not in the drawing is told of, by both its ends.
func TestBecome(t *testing.T) {
	for _, from := range all() {
		for _, to := range all() {
			m := in(from)
			err := m.Become(to)
			if !m.Is(to) {
				t.Errorf("%v, then %v: it is %v", from, to, m)
			}
			if m.Is(from) && from != to {
				t.Errorf("%v, then %v: it is both", from, to)
			}
			var wrong *OrderError
			if inOrder := slices.Contains(next[from], to); inOrder != (err == nil) {
				t.Errorf("%v, then %v: %v", from, to, err)
			} else if !inOrder && (!errors.As(err, &wrong) || *wrong != OrderError{from, to}) {
				t.Errorf("%v, then %v: the error is %#v", from, to, err)
			}
		}
	}
	err := in(Committed).Become(Writing)
	if got, want := fmt.Sprint(err), "it is committed, and cannot become writing"; got != want {
		t.Errorf("the error says %q, want %q", got, want)
	}
}

// A session says of itself what its state says.
func TestMeaningOfSession(t *testing.T) {
	for _, st := range all() {
		if m := in(st); m.HasEnded() != st.HasEnded() || m.IsNobodys() != st.IsNobodys() || m.String() != st.String() {
			t.Errorf("%v: has ended %v, is nobody's %v, is called %v", st, m.HasEnded(), m.IsNobodys(), m)
		}
	}
}

// A try that fails leaves what was written out of the file, unless it has become that; one of
// a file that goes live and succeeds makes it live.
func TestAfterTry(t *testing.T) {
	for _, c := range []struct {
		from      State
		e         unix.Errno
		published bool
		want      State
	}{
		{Ending, 0, true, Committed},
		{Ending, 0, false, Committed}, // there was nothing to publish
		{Ending, unix.EIO, true, Committed},
		{Ending, unix.EBUSY, false, RolledBack},
		{GoingLive, 0, true, Live},
		{GoingLive, 0, false, Live},
		{GoingLive, unix.EIO, true, Committed},
		{GoingLive, unix.EBUSY, false, RolledBack},
	} {
		m := in(c.from)
		got := m.AfterTry(c.e, c.published)
		if got != c.want {
			t.Errorf("%v, then a try with %v, published %v: %v, want %v", c.from, c.e, c.published, got, c.want)
		}
		if !m.Is(c.from) {
			t.Errorf("%v: to ask has made it %v", c.from, m)
		}
		if err := m.Become(got); err != nil {
			t.Errorf("%v: %v", c.from, err)
		}
	}
}

// What the closes are told is that of the last answer, and stays when the lock is free.
func TestEnd(t *testing.T) {
	m := New()
	freed := m.Freed()
	m.Answer(unix.EBUSY)
	if m.Result() != unix.EBUSY {
		t.Errorf("the result is %v", m.Result())
	}
	select {
	case <-freed:
		t.Error("the lock is free before the end")
	default:
	}
	m.Free()
	select {
	case <-freed:
	default:
		t.Error("whoever waits for the lock is not told of the end")
	}
	if m.Result() != unix.EBUSY {
		t.Errorf("the result is %v after the end", m.Result())
	}
	m.Answer(0)
	if m.Result() != 0 {
		t.Errorf("the result is %v after a second answer", m.Result())
	}
}

// The lives that sessions have, from the open to the end.
func TestLives(t *testing.T) {
	for name, life := range map[string][]State{
		"a save":                           {Ending, Committed},
		"a descriptor that was passed on":  {Ending, Committed, Apart},
		"a refusal":                        {Ending, RolledBack},
		"a database":                       {GoingLive, Live},
		"a database whose disk has failed": {GoingLive, Committed, Apart},
		"a database that was refused":      {GoingLive, RolledBack},
		"a file removed by its writer":     {Detached, Dropped},
	} {
		m := New()
		for _, st := range life {
			if err := m.Become(st); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
