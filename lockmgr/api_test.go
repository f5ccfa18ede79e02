package lockmgr

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestInvalidRequests(t *testing.T) {
	tab := New(Options{})
	o := Owner{PID: 1, Start: 1}
	for name, r := range map[string]Request{
		"no keys":                {Mode: Shared, Owner: o},
		"no mode":                {Keys: []Key{"f"}, Owner: o},
		"unknown mode":           {Keys: []Key{"f"}, Mode: Exclusive + 1, Owner: o},
		"unknown class":          {Keys: []Key{"f"}, Mode: Shared, Class: Posix + 1, Owner: o},
		"no owner":               {Keys: []Key{"f"}, Mode: Shared},
		"flock on two keys":      {Keys: []Key{"f", "g"}, Mode: Shared, Class: Flock, Owner: o},
		"posix on two keys":      {Keys: []Key{"f", "g"}, Mode: Shared, Class: Posix, Owner: o},
		"flock for update":       {Keys: []Key{"f"}, Mode: Update, Class: Flock, Owner: o},
		"posix for update":       {Keys: []Key{"f"}, Mode: Update, Class: Posix, Owner: o},
		"range behind Whole":     {Keys: []Key{"f"}, Mode: Shared, Class: Posix, Range: Range{Start: 5, End: Whole.End + 1}, Owner: o},
		"range that ends before": {Keys: []Key{"f"}, Mode: Shared, Class: Posix, Range: Range{Start: 2, End: 1}, Owner: o},
	} {
		if _, err := tab.Acquire(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if tab.Test(r) != nil {
			t.Errorf("%s: somebody is in the way", name)
		}
	}
	empty(t, tab)
}

// What is asked of a lock that the table does not have, or of one in the wrong
// state, changes nothing.
func TestWrongLock(t *testing.T) {
	tab, other := New(Options{}), New(Options{})
	foreign := must(t, other, ask(1, Exclusive, "f"))
	ended := must(t, tab, ask(1, Exclusive, "f"))
	tab.Release(ended)
	if ended.Err() != ErrReleased {
		t.Errorf("released: %v", ended.Err())
	}
	for name, l := range map[string]*Lock{"another table's": foreign, "zero": new(Lock), "ended": ended} {
		tab.Release(l)
		tab.SetOwner(l, Owner{PID: 2, Start: 2}, Birth{})
		if tab.Cancel(l, nil) || tab.Steal(l) == nil || tab.Conflicts(l, 1) != nil {
			t.Errorf("%s: cancelled, stolen, or waiting", name)
		}
		if tab.Shrink(l, nil) {
			t.Errorf("%s: has lost keys", name)
		}
	}
	if !foreign.Held() || foreign.Request().Mode != Exclusive || foreign.Request().Owner.PID != 1 {
		t.Errorf("another table's lock is %+v", foreign.Request())
	}
	empty(t, tab)
}

// The zero Lock answers like one that was never asked for.
func TestZeroLock(t *testing.T) {
	var l Lock
	<-l.Done()
	if l.Held() || l.Token() != 0 || l.Keys() != nil || l.Err() != nil || l.Wait(t.Context()) != nil {
		t.Error("the zero lock is something")
	}
	if r := l.Request(); r.Keys != nil || r.Mode != 0 {
		t.Errorf("%+v", r)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // both ends of the wait are there: whichever is seen
		if err := l.Wait(over); err != nil {
			t.Fatal(err)
		}
	}
}

// A lock says what it was asked for, under its current names; the caller's
// slice of keys stays the caller's.
func TestRequestIsKept(t *testing.T) {
	tab := New(Options{FirstToken: 41})
	r := Request{
		Keys: []Key{"d/b", "", "d/a", "d/b"}, Mode: Update, Owner: Owner{PID: 7, Start: 8}, Since: Birth{Tick: 9, PID: 7},
		Lineage: []Ancestor{{Owner: Owner{PID: 1, Start: 1}, Child: Birth{Tick: 9, PID: 7}}}, Now: time.Unix(5, 0), Label: "label",
	}
	l := must(t, tab, r)
	r.Keys[0] = "changed"
	tab.RenameTrees(Rename{From: "d", To: "e"})
	got, h := l.Request(), tab.Snapshot().Held[0]
	if want := []Key{"", "e/a", "e/b"}; !slices.Equal(got.Keys, want) || !slices.Equal(h.Keys, want) || !slices.Equal(l.Keys(), want) {
		t.Errorf("keys %q, %q, %q", got.Keys, h.Keys, l.Keys())
	}
	if got.Mode != Update || got.Owner != r.Owner || got.Since != r.Since || !got.Now.Equal(r.Now) || got.Label != "label" ||
		len(got.Lineage) != 1 || got.Range != Whole {
		t.Errorf("request %+v", got)
	}
	if h.Mode != Update || h.Owner != r.Owner || h.Since != r.Since || !h.Now.Equal(r.Now) || h.Label != "label" ||
		h.Lock != l || h.Token != 41 || l.Token() != 41 || h.Range != Whole {
		t.Errorf("holder %+v", h)
	}
	tab.Release(l)
	if want := []Key{"", "e/a", "e/b"}; !slices.Equal(l.Keys(), want) || l.Token() != 41 {
		t.Errorf("after the end: keys %q, token %d", l.Keys(), l.Token())
	}
	empty(t, tab)
}

// Of an empty key nothing is below, and renaming it does nothing.
func TestRenameOfTheEmptyKey(t *testing.T) {
	tab := New(Options{})
	root, abs := must(t, tab, ask(1, Exclusive, "")), must(t, tab, ask(1, Exclusive, "/abs"))
	tab.RenameTrees(Rename{From: "", To: "x"})
	tab.RenameTrees(Rename{From: "", To: "x"}, Rename{From: "x", To: ""})
	tab.RenameTrees(Rename{From: "x", To: ""}, Rename{From: "", To: "x"})
	tab.RenameFiles(FileRename{Rename{From: "", To: "x"}, root})
	if root.Keys()[0] != "" || abs.Keys()[0] != "/abs" {
		t.Errorf("%q, %q", root.Keys(), abs.Keys())
	}
	tab.RenameTrees(Rename{From: "/abs", To: "rel"})
	if abs.Keys()[0] != "rel" {
		t.Errorf("%q", abs.Keys())
	}
	tab.Release(root)
	tab.Release(abs)
	empty(t, tab)
}

// Errors name who is in the way, for people.
func TestErrorTexts(t *testing.T) {
	tab := New(Options{})
	a := must(t, tab, ask(1, Exclusive, "f", "g"))
	must(t, tab, Request{Keys: []Key{"h"}, Mode: Exclusive, Owner: Owner{PID: 0, Start: 5}})
	must(t, tab, ask(1, Shared, "h"))
	r := ask(2, Shared, "f")
	r.NoWait = true
	_, err := tab.Acquire(r)
	if want := `lock would block: exclusive session lock on "f", "g" by pid 1`; err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	_, err = tab.Acquire(Request{Keys: []Key{"g"}, Mode: Shared, Owner: Owner{PID: 0, Start: 5}})
	if want := `deadlock: foreign process #5 waits for "g" of pid 1, pid 1 waits for "h" of foreign process #5`; err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	if !errors.Is(err, ErrDeadlock) || errors.Is(err, ErrWouldBlock) {
		t.Errorf("%v is not only a deadlock", err)
	}
	if got := (&ConflictError{}).Error(); got != ErrWouldBlock.Error() {
		t.Errorf("conflict with nobody: %s", got)
	}
	for want, got := range map[string]string{
		"shared update exclusive Mode(9)": strings.Join([]string{Shared.String(), Update.String(), Exclusive.String(), Mode(9).String()}, " "),
		"session flock posix Class(9)":    strings.Join([]string{Session.String(), Flock.String(), Posix.String(), Class(9).String()}, " "),
		"pid 3":                           Owner{PID: 3, Start: 4}.String(),
		"foreign process #4":              Owner{PID: 0, Start: 4}.String(),
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	tab.Release(a)
}

// Ranks run out when everybody is put at the same spot; then all are ranked
// anew, in the same order.
func TestRanksRunOut(t *testing.T) {
	tab := New(Options{})
	var want []*Lock
	for i := range int32(40) {
		key := Key(rune('A' + i))
		must(t, tab, ask(i+1, Exclusive, key))
		w := must(t, tab, ask(100, Exclusive, key, "f"))
		want = append(want, w)
	}
	// Each of the holders asks for what a waiter of rank n holds up: it comes
	// right before that waiter, in ever smaller gaps.
	must(t, tab, ask(200, Exclusive, "f2"))
	for i := int32(39); i >= 0; i-- {
		must(t, tab, ask(i+1, Exclusive, "f2"))
		sound(t, tab)
	}
	var last *Lock
	for _, h := range tab.Snapshot().Waiting {
		if i := slices.Index(want, h.Lock); i >= 0 && last != nil && slices.Index(want, last) > i {
			t.Errorf("waiter %d stands behind %d", i, slices.Index(want, last))
		}
		if slices.Contains(want, h.Lock) {
			last = h.Lock
		}
	}
}

// The steady state without contention needs no memory but the Lock.
func TestAllocations(t *testing.T) {
	tab := New(Options{})
	r := ask(1, Exclusive, "home/anna/project/state.json")
	if n := testing.AllocsPerRun(1000, func() {
		l, _ := tab.Acquire(r)
		tab.Release(l)
	}); n != 1 {
		t.Errorf("Acquire and Release allocate %v times", n)
	}
}

// A lock, held or waiting, takes less than 1 KiB, its share of every index
// included.
func TestMemory(t *testing.T) {
	const holders, waiters = 100_000, 10_000
	tab := New(Options{})
	before := heap()
	for i := range holders {
		must(t, tab, ask(1, Exclusive, key(i)))
	}
	held := heap()
	if each := (held - before) / holders; each > 1024 {
		t.Errorf("%d bytes for each holder", each)
	}
	for i := range waiters {
		must(t, tab, ask(int32(i+2), Exclusive, key(i)))
	}
	if each := (heap() - held) / waiters; each > 1024 {
		t.Errorf("%d bytes for each waiter", each)
	}
	runtime.KeepAlive(tab)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A lock is awaited as long as somebody waits at one of its keys.
func TestIsAwaited(t *testing.T) {
	tab := New(Options{})
	l := must(t, tab, ask(1, Update, "f", "g"))
	other := must(t, tab, ask(2, Update, "h"))
	if tab.IsAwaited(l) || tab.IsAwaited(new(Lock)) {
		t.Error("awaited by nobody")
	}
	must(t, tab, ask(3, Shared, "f")) // goes along with it
	if tab.IsAwaited(l) {
		t.Error("awaited by somebody who has what he wants")
	}
	w := must(t, tab, ask(4, Update, "g"))
	if !tab.IsAwaited(l) || tab.IsAwaited(other) || tab.IsAwaited(w) {
		t.Error("the wrong lock is awaited")
	}
	tab.Cancel(w, nil)
	if tab.IsAwaited(l) {
		t.Error("still awaited by somebody who has given up")
	}
}
