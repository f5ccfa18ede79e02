package places

import (
	"math"
	"slices"
	"testing"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

const (
	shared    = rules.Shared
	exclusive = rules.Exclusive
)

// Who waits for whom by where they stand: the holders come in order, the last lock asks.
func TestIsBlocked(t *testing.T) {
	for _, c := range []struct {
		name    string
		holders []*lock
		asks    *lock
		want    string
	}{
		{"nobody there", nil, fresh(2, exclusive, "f"), ""},
		{"the same key", []*lock{fresh(1, exclusive, "f")}, fresh(2, shared, "f"), "1"},
		{"a mode that goes with it", []*lock{fresh(1, shared, "f")}, fresh(2, shared, "f"), ""},
		{"the same owner", []*lock{fresh(1, exclusive, "f")}, fresh(1, exclusive, "f"), ""},
		{"an heir", []*lock{fresh(1, exclusive, "f")}, heir(2, exclusive, "f"), ""},
		{"one of two keys", []*lock{fresh(1, exclusive, "f")}, fresh(2, shared, "e", "f"), "1"},
		{"a key below", []*lock{fresh(1, exclusive, "d")}, fresh(2, exclusive, "d/f"), ""},
		{"below a tree", []*lock{fresh(1, exclusive, "d/")}, fresh(2, shared, "d/e/f"), "1"},
		{"a tree above", []*lock{fresh(1, exclusive, "d/e/f")}, fresh(2, shared, "d/"), "1"},
		{"the key of a tree", []*lock{fresh(1, exclusive, "d/")}, fresh(2, shared, "d"), "1"},
		{"a tree in a tree", []*lock{fresh(1, exclusive, "d/")}, fresh(2, shared, "d/e/"), "1"},
		{"beside a tree", []*lock{fresh(1, exclusive, "d/")}, fresh(2, exclusive, "da"), ""},
		{"the whole tree", []*lock{fresh(1, exclusive, "/")}, fresh(2, exclusive, "d/f"), "1"},
		{"apart from the whole tree", []*lock{fresh(1, exclusive, "/")}, fresh(2, exclusive, "//x"), ""},
		{"two intentions", []*lock{fresh(3, shared, "d/"), fresh(1, shared, "d/e")}, fresh(2, shared, "d/f"), ""},
		{"intentions that conflict", []*lock{heir(3, shared, "d/"), fresh(1, exclusive, "d/e")}, heir(4, exclusive, "d/f"), "3"},
		{"guests of a session", []*lock{fresh(1, exclusive, "f"), heir(2, exclusive, "f")}, heir(3, exclusive, "f"), ""},
		{"not guests of a weaker one", []*lock{fresh(1, rules.Update, "f"), heir(2, rules.Update, "f")}, heir(3, exclusive, "f"), "2"},
		{"a session elsewhere", []*lock{fresh(1, exclusive, "d/"), heir(2, exclusive, "d/f")}, heir(3, exclusive, "d/f"), "2"},
		{"a flock beside a weak one", []*lock{weak(flock(1, exclusive, "f"))}, flock(2, exclusive, "f"), "1"},
		{"a session beside a weak flock", []*lock{weak(flock(1, exclusive, "f"))}, fresh(2, exclusive, "f"), ""},
	} {
		s := newStage()
		all := []*lock{c.asks}
		for _, l := range c.holders {
			all = append(all, s.hold(l))
		}
		found := s.FirstClash(&c.asks.stand)
		if c.asks.stand.First() != nil {
			t.Errorf("%s: it stands somewhere for having been asked about", c.name)
		}
		s.Stand(&c.asks.stand)
		if got := names(c.asks.stand.Blockers(math.MaxInt)); got != c.want || c.asks.stand.IsBlocked() != (c.want != "") {
			t.Errorf("%s: blocked %v, by %q", c.name, c.asks.stand.IsBlocked(), got)
		}
		if isTree := c.asks.stand.Trees() != nil; !isTree && (found == nil && c.want != "" || found != nil && found.Lock.name != c.want) {
			t.Errorf("%s: the first clash is %+v", c.name, found)
		}
		if c.asks.stand.IsBehind() {
			t.Errorf("%s: behind a queue", c.name)
		}
		s.Leave(&c.asks.stand)
		if err := s.check(all...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Of several locks in the way the first clash is at the first key, and there it is the
// one with the lowest range.
func TestFirstClash(t *testing.T) {
	s := newStage()
	posix := func(pid int32, start, end uint64) *lock {
		l := fresh(pid, exclusive, "f")
		l.stand.Terms.Class, l.stand.Terms.Range = rules.Posix, rules.Range{Start: start, End: end}
		return l
	}
	for _, l := range []*lock{posix(1, 20, 29), posix(2, 10, 19), posix(3, 30, 39), fresh(4, exclusive, "g"), fresh(5, exclusive, "h")} {
		s.hold(l)
	}
	for _, c := range []struct {
		l    *lock
		want string
	}{
		{posix(9, 0, 100), "2"},
		{posix(9, 25, 35), "1"},
		{posix(9, 35, 100), "3"},
		{posix(9, 40, 100), ""},
		{fresh(9, exclusive, "e", "g"), "4"},
		{fresh(9, exclusive, "g", "f"), "2"},
		{fresh(9, exclusive, "nowhere/f"), ""},
		{fresh(9, exclusive, "h/"), "5"},
		{fresh(9, exclusive, "/"), ""}, // what is below is not looked at
	} {
		got := ""
		if x := s.FirstClash(&c.l.stand); x != nil {
			got = x.Lock.name
		}
		if got != c.want {
			t.Errorf("%q of %q, not %q", got, c.l.stand.Keys(nil), c.want)
		}
	}
	if s.Find("nowhere") != nil {
		t.Error("a question makes nodes")
	}
}

// A lock stands behind those who wait before it for what conflicts, and behind no others.
func TestIsBehind(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiters []*lock
		asks    *lock
		want    string
	}{
		{"nobody", nil, fresh(9, exclusive, "f"), ""},
		{"a writer", []*lock{fresh(2, exclusive, "f")}, fresh(9, shared, "f"), "2"},
		{"a reader", []*lock{fresh(2, shared, "f")}, fresh(9, shared, "f"), ""},
		{"two", []*lock{fresh(2, exclusive, "f"), fresh(3, exclusive, "e", "f")}, fresh(9, shared, "e", "f"), "3 2"},
		{"a tree", []*lock{fresh(2, exclusive, "d/")}, fresh(9, shared, "d/f"), "2"},
		{"below the tree", []*lock{fresh(2, exclusive, "d/f")}, fresh(9, shared, "d/"), "2"},
		{"its kin", []*lock{fresh(1, exclusive, "f")}, heir(9, exclusive, "f"), ""},
	} {
		s := newStage()
		all := []*lock{c.asks}
		for _, l := range c.waiters {
			all = append(all, s.wait(l))
		}
		s.Stand(&c.asks.stand)
		for _, when := range []string{"about to wait", "waiting"} {
			if when == "waiting" {
				c.asks.stand.Rank = math.MaxUint64
				s.Enqueue(&c.asks.stand)
			}
			if got := names(c.asks.stand.Blockers(math.MaxInt)); got != c.want || c.asks.stand.IsBehind() != (c.want != "") || c.asks.stand.IsBlocked() {
				t.Errorf("%s, %s: behind %v, by %q", c.name, when, c.asks.stand.IsBehind(), got)
			}
		}
		c.asks.stand.Rank = 1
		s.Requeue(&c.asks.stand)
		if c.asks.stand.IsBehind() {
			t.Errorf("%s: behind those who wait behind it", c.name)
		}
		if err := s.check(all...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Whoever waits for a weak lock is passed by those who do not wait for it.
func TestPassesWhoWaitsForWeak(t *testing.T) {
	for _, held := range []bool{true, false} {
		s := newStage()
		reader := weak(flock(1, exclusive, "f"))
		if held {
			s.hold(reader)
		} else {
			s.wait(reader)
		}
		waiter := s.wait(flock(2, exclusive, "f"))
		if waiter.stand.IsBlocked() != held || waiter.stand.IsBehind() == held {
			t.Errorf("held %v: the flock does not wait for the weak one", held)
		}
		session, program := fresh(3, exclusive, "f"), flock(4, exclusive, "f")
		for _, l := range []*lock{session, program} {
			s.Stand(&l.stand)
		}
		if session.stand.IsBlocked() || session.stand.IsBehind() {
			t.Errorf("held %v: a session waits for a weak lock", held)
		}
		if got := names(program.stand.Blockers(math.MaxInt)); got != "1 2" {
			t.Errorf("held %v: another flock waits for %q", held, got)
		}
		if !program.stand.IsBehind() {
			t.Errorf("held %v: another flock passes", held)
		}
		elsewhere := weak(flock(5, exclusive, "g"))
		if s.hold(elsewhere); !program.stand.IsBehind() {
			t.Errorf("held %v: a weak lock on another key counts", held)
		}
		s.Leave(&reader.stand)
		if session.stand.IsBlocked() || !session.stand.IsBehind() {
			t.Errorf("held %v: it passes a flock that does not wait for a weak lock", held)
		}
	}
}

// The blockers are named each once, holders before waiters, and no more than asked for.
func TestBlockers(t *testing.T) {
	s := newStage()
	s.hold(fresh(1, shared, "e", "f"))
	s.hold(fresh(2, shared, "f"))
	s.wait(fresh(3, exclusive, "f"))
	s.wait(fresh(4, exclusive, "e"))
	l := s.wait(fresh(5, exclusive, "e", "f"))
	s.wait(fresh(6, exclusive, "f"))
	for limit, want := range []string{"", "1", "1 2", "1 2 4", "1 2 4 3", "1 2 4 3"} {
		if got := names(l.stand.Blockers(limit)); got != want {
			t.Errorf("up to %d: %q, not %q", limit, got, want)
		}
	}
}

// Whoever is kin to a holder is let ahead of those who wait for it, if it asks only; who
// waits there stands behind others.
func TestBlockersOfKin(t *testing.T) {
	s := newStage()
	s.hold(fresh(1, exclusive, "f"))
	s.wait(fresh(2, exclusive, "f"))
	l := heir(3, exclusive, "f")
	s.Stand(&l.stand)
	if got := names(l.stand.Blockers(math.MaxInt)); got != "" {
		t.Errorf("before it waits: %q", got)
	}
	l.stand.Rank = math.MaxUint64
	s.Enqueue(&l.stand)
	if got := names(l.stand.Blockers(math.MaxInt)); got != "2" {
		t.Errorf("when it waits: %q", got)
	}
	if got := names(s.wait(heir(4, exclusive, "f")).stand.Blockers(math.MaxInt)); got != "2 3" {
		t.Errorf("guests wait side by side: %q", got)
	}
}

// A weak lock that waits on trial lets nobody past; when it is granted it does.
func TestPassesNobodyOnTrial(t *testing.T) {
	s := newStage()
	trial := weak(flock(1, exclusive, "f"))
	trial.stand.Trial = true
	s.wait(trial)
	s.wait(flock(2, exclusive, "f"))
	l := s.wait(fresh(3, exclusive, "f"))
	if !l.stand.IsBehind() {
		t.Error("somebody is passed who waits for what is on trial")
	}
	if s.hold(trial); l.stand.IsBehind() {
		t.Error("nobody is passed though it was granted")
	}
}

// A weak lock for which a waiter does not wait lets nobody past it.
func TestWeakThatNobodyWaitsFor(t *testing.T) {
	s := newStage()
	s.hold(weak(flock(1, shared, "f")))
	s.hold(fresh(2, shared, "f"))
	s.wait(fresh(3, exclusive, "f"))
	if l := s.wait(fresh(4, exclusive, "f")); !l.stand.IsBehind() {
		t.Error("it passes")
	}
}

// MeetsAll is true of a tree lock, and of all where there is none.
func TestMeetsAll(t *testing.T) {
	s := newStage()
	l := s.hold(fresh(1, exclusive, "d"))
	at := l.stand.First()
	if !at.MeetsAll() {
		t.Error("somebody does not meet it, though there is no tree")
	}
	tree := s.hold(fresh(2, exclusive, "d/"))
	if at.MeetsAll() || !tree.stand.First().MeetsAll() {
		t.Error("a lock on the key meets the intentions there, or a tree does not")
	}
	below := s.hold(fresh(3, exclusive, "d/f"))
	n := s.Find("d")
	if l.stand.Meets(&below.stand, n) || below.stand.Meets(&l.stand, n) || !tree.stand.Meets(&below.stand, n) || !l.stand.Meets(&tree.stand, n) {
		t.Error("who meets at d is not who has to do with each other")
	}
	if l.stand.ConflictsAt(&below.stand, n) || !below.stand.ConflictsAt(&tree.stand, n) {
		t.Error("who conflicts there is not who meets")
	}
}

// Holders are found by key, by the trees above it, and in trees.
func TestHolders(t *testing.T) {
	s := newStage()
	for _, l := range []*lock{
		fresh(1, shared, "d/"), fresh(2, shared, "d/e/f"), fresh(3, shared, "d/e", "g"), fresh(4, shared, "//x"), fresh(5, shared, "/"),
	} {
		s.hold(l)
	}
	s.wait(fresh(6, exclusive, "g"))
	for _, c := range []struct {
		keys, trees []keytree.Key
		want        string
	}{
		{[]keytree.Key{"d/e/f"}, nil, "1 2 5"},
		{[]keytree.Key{"d/e"}, nil, "1 3 5"},
		{[]keytree.Key{"d"}, nil, "1 5"},
		{[]keytree.Key{"nowhere/f"}, nil, "5"},
		{[]keytree.Key{"//x"}, nil, "4"},
		{[]keytree.Key{"//x/y"}, nil, ""},
		{[]keytree.Key{"g", "d/e"}, nil, "1 3 5"},
		{nil, []keytree.Key{"d/e"}, "1 2 3 5"},
		{nil, []keytree.Key{""}, "1 2 3 5"},
		{nil, []keytree.Key{"//"}, "4"},
		{nil, nil, ""},
	} {
		found := s.Holders(c.keys, c.trees)
		slices.SortFunc(found, func(a, b *lock) int { return int(a.stand.Token) - int(b.stand.Token) })
		if got := names(found); got != c.want {
			t.Errorf("%q and the trees %q: %q, not %q", c.keys, c.trees, got, c.want)
		}
	}
}
