package transaction

import (
	"slices"
	"testing"

	"latchfs/lockmgr"
)

// at is a moment.
func at(tick uint64) lockmgr.Birth { return lockmgr.Birth{Tick: tick} }

// process is a Process, which descends from those that its lineage has.
type process struct {
	lineage []lockmgr.Ancestor
	label   string
	uid     uint32
}

func (p *process) DescendsFrom(o lockmgr.Owner, since lockmgr.Birth) bool {
	return slices.ContainsFunc(p.lineage, func(a lockmgr.Ancestor) bool { return a.Owner == o && a.Child.After(since) })
}

func (p *process) TxnLabel() string { return p.label }
func (p *process) UID() uint32      { return p.uid }

func txn(label string, pid int32, since uint64) *Txn {
	return New(Config{Label: label, UID: 1000, Owner: owner(pid), Since: at(since)})
}

func TestMembers(t *testing.T) {
	outer, inner, other := txn("outer", 1, 10), txn("inner", 2, 20), txn("other", 3, 20)
	var r Running
	for _, x := range []*Txn{outer, inner, other} {
		r.Enter(x)
	}
	child := func(pid int32, born uint64) lockmgr.Ancestor {
		return lockmgr.Ancestor{Owner: owner(pid), Child: at(born)}
	}
	for what, tc := range map[string]struct {
		p    process
		want *Txn
	}{
		"stranger":                     {process{uid: 1000}, nil},
		"child":                        {process{lineage: []lockmgr.Ancestor{child(1, 11)}}, outer},
		"child from before":            {process{lineage: []lockmgr.Ancestor{child(1, 10)}}, nil},
		"of both, the later one":       {process{lineage: []lockmgr.Ancestor{child(2, 21), child(1, 11)}}, inner},
		"by its environment":           {process{label: "other", uid: 1000}, other},
		"its parents, not environment": {process{lineage: []lockmgr.Ancestor{child(1, 11)}, label: "other", uid: 1000}, outer},
		"another user":                 {process{label: "other", uid: 1001}, nil},
		"no such transaction":          {process{label: "oth", uid: 1000}, nil},
	} {
		if got := r.Of(&tc.p); got != tc.want {
			t.Errorf("%s: it is part of %v, want %v", what, got, tc.want)
		}
	}
	p := &process{lineage: []lockmgr.Ancestor{child(2, 21), child(1, 11)}, label: "other", uid: 1000}
	for _, x := range []*Txn{inner, outer, other} {
		if got := r.Of(p); got != x {
			t.Errorf("it is part of %v, want %v", got, x)
		}
		r.Forget(x)
		r.Forget(x) // once more changes nothing
	}
	if r.Of(p) != nil || r.Any() || len(r.All()) > 0 {
		t.Error("a transaction is left")
	}
}

// A transaction without a label has no members by their environment.
func TestNoLabel(t *testing.T) {
	var r Running
	r.Enter(txn("", 1, 10))
	if r.Of(&process{uid: 1000}) != nil {
		t.Error("whoever names no transaction is part of one")
	}
}

func TestRunning(t *testing.T) {
	var r Running
	if r.Any() {
		t.Error("there is a transaction at first")
	}
	a, b, c := txn("a", 1, 0), txn("b", 2, 0), txn("c", 3, 0)
	for _, x := range []*Txn{a, b, c} {
		r.Enter(x)
	}
	all := r.All()
	r.Forget(b)
	if !slices.Equal(all, []*Txn{a, b, c}) {
		t.Error("a list that was given out has changed")
	}
	if !slices.Equal(r.All(), []*Txn{a, c}) || !r.Any() {
		t.Errorf("left are %d", len(r.All()))
	}
}

// The locks that do not keep a member out: its own, those of the processes above it, and
// those of the transaction's ancestors.
func TestForebears(t *testing.T) {
	up := func(pid int32) lockmgr.Ancestor { return lockmgr.Ancestor{Owner: owner(pid), Child: at(5)} }
	x := New(Config{Lineage: []lockmgr.Ancestor{up(1)}})
	list := make([]lockmgr.Ancestor, 1, 8)
	list[0] = up(2)
	if got := x.Forebears(up(3), list); !slices.Equal(got, []lockmgr.Ancestor{up(3), up(2), up(1)}) {
		t.Errorf("they are %v", got)
	}
	if list[:2][1] != (lockmgr.Ancestor{}) {
		t.Error("the list of the caller was written")
	}
}

func TestIdentity(t *testing.T) {
	x := New(Config{ID: 7, Label: "epoch-c7", Owner: owner(1), Since: at(9)})
	if x.ID() != 7 || x.Label() != "epoch-c7" || x.Owner() != owner(1) || x.Since() != at(9) {
		t.Error("it is another one")
	}
	if x.IsOver() || !x.TakesFiles() {
		t.Error("it is not open")
	}
}
