package lockmgr

import (
	"errors"
	"testing"
)

func owner(n int32) Owner { return Owner{PID: n, Start: uint64(n)} }

func req(pid int32, m Mode, keys ...Key) Request {
	return Request{Keys: keys, Mode: m, Owner: owner(pid), Since: Birth{uint64(pid), pid}}
}

func TestHandOver(t *testing.T) {
	tab := New(Options{FirstToken: 7})
	a, err := tab.Acquire(req(1, Exclusive, "d/f", "d/g"))
	if err != nil || !a.Held() || a.Token() != 7 {
		t.Fatal(a, err)
	}
	b, err := tab.Acquire(req(2, Exclusive, "d/g"))
	if err != nil || b.Held() {
		t.Fatal(b, err)
	}
	if _, err := tab.Acquire(Request{Keys: []Key{"d/g"}, Mode: Shared, Owner: owner(3), NoWait: true}); !errors.Is(err, ErrWouldBlock) {
		t.Fatal(err)
	}
	tab.Rekey("d", "e")
	_, err = tab.Acquire(req(2, Exclusive, "e/f"))
	var d *DeadlockError
	if err != nil && !errors.As(err, &d) {
		t.Fatal(err)
	}
	tab.Release(a)
	<-b.Done()
	if !b.Held() || b.Keys()[0] != "e/g" {
		t.Fatal(b.Keys())
	}
	tab.Release(b)
}

func TestDeadlock(t *testing.T) {
	tab := New(Options{})
	tab.Acquire(req(1, Exclusive, "f"))
	tab.Acquire(req(2, Exclusive, "g"))
	tab.Acquire(req(1, Exclusive, "g"))
	_, err := tab.Acquire(req(2, Exclusive, "f"))
	if !errors.Is(err, ErrDeadlock) {
		t.Fatal(err)
	}
	t.Log(err)
}

func BenchmarkAcquireRelease(b *testing.B) {
	b.ReportAllocs()
	tab := New(Options{})
	r := req(1, Exclusive, "home/u/project/state.json")
	for b.Loop() {
		l, _ := tab.Acquire(r)
		tab.Release(l)
	}
}
func BenchmarkAcquireInto(b *testing.B) {
	b.ReportAllocs()
	tab := New(Options{})
	r := req(1, Exclusive, "home/u/project/state.json")
	var l Lock
	for b.Loop() {
		tab.AcquireInto(&l, r)
		tab.Release(&l)
	}
}
