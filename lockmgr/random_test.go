package lockmgr

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAgainstModel plays random commands on the table and on the model, and
// compares everything after each: more than 30,000 commands in all, a ninth of them
// with the race detector, with LATCHFS_STRESS=1 more than three millions.
// -rapid.checks=N makes N runs.
func TestAgainstModel(t *testing.T) {
	runs := "120"
	switch {
	case os.Getenv("LATCHFS_STRESS") != "":
		runs = "11000"
	case raced:
		runs = "13"
	}
	setDefault(t, "rapid.checks", runs)
	setDefault(t, "rapid.steps", "300") // on average, for each run
	var steps int
	rapid.Check(t, func(rt *rapid.T) {
		p := &play{T: rt, table: New(Options{}), model: &model{}}
		rt.Repeat(p.commands())
		for _, l := range p.model.all {
			if l.real != nil {
				p.table.Release(l.real)
			}
			p.table.Unlock(l.keys[0], l.class, l.client, Whole)
		}
		if held, waiting := p.table.Len(); held+waiting+p.table.owners.Len()+p.table.ground.Len() != 2 {
			rt.Fatalf("after releasing all: %d held, %d waiting, %d owners, %d keys left",
				held, waiting, p.table.owners.Len(), p.table.ground.Len())
		}
		steps += p.steps
	})
	t.Logf("%d steps", steps)
}

// setDefault sets a flag that was not given.
func setDefault(t *testing.T, name, value string) {
	t.Helper()
	if f := flag.Lookup(name); f.Value.String() == f.DefValue {
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
	}
}

// play is one run: the table, the model, and where they stand.
type play struct {
	*rapid.T
	table *Table
	model *model
	ids   int
	token uint64 // the greatest seen
	steps int
	said  string // the command just played
}

// cast is who plays: a small family, two strangers, two foreign processes. The
// births let the lock of an ancestor come before or after a branch.
var cast = func() []Request {
	root, a, b := Owner{PID: 1, Start: 1}, Owner{PID: 2, Start: 2}, Owner{PID: 3, Start: 3}
	fromRoot := func(tick uint64) Ancestor { return Ancestor{Owner: root, Child: Birth{Tick: tick, PID: int32(tick)}} }
	return []Request{
		{Owner: root},
		{Owner: a, Lineage: []Ancestor{fromRoot(10)}},
		{Owner: Owner{PID: 4, Start: 4}, Lineage: []Ancestor{{Owner: a, Child: Birth{Tick: 30, PID: 30}}, fromRoot(10)}},
		{Owner: Owner{PID: 5, Start: 5}, Lineage: []Ancestor{{Owner: a, Child: Birth{Tick: 60, PID: 60}}, fromRoot(10)}},
		{Owner: b},
		{Owner: Owner{PID: 6, Start: 6}, Lineage: []Ancestor{{Owner: b, Child: Birth{Tick: 40, PID: 40}}}},
		{Owner: Owner{PID: 0, Start: 7}},
		{Owner: Owner{PID: 0, Start: 8}, Lineage: []Ancestor{{Owner: Owner{PID: 0, Start: 7}, Child: Birth{Tick: 20, PID: 20}}}},
	}
}()

var keys = []Key{"d", "d/a", "d/b", "d/s/a", "e", "e/a"}

func (p *play) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(p.T, what) }

func (p *play) key() Key { return keys[p.pick("key", len(keys))] }

// some returns a random lock of the model that f accepts, or nil.
func (p *play) some(f func(*mlock) bool) *mlock {
	var fit []*mlock
	for _, l := range p.model.all {
		if l.real != nil && f(l) {
			fit = append(fit, l)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[p.pick("lock", len(fit))]
}

// whole reports whether the table has the lock in one piece under its handle:
// Posix locks that are held may have been cut.
func whole(l *mlock) bool { return l.class != Posix || !l.held }

// commands are what a run is made of; each is listed as often as it is to come.
func (p *play) commands() map[string]func(*rapid.T) {
	commands := map[string]func(*rapid.T){"": func(*rapid.T) { p.compare() }}
	for _, c := range []struct {
		name  string
		times int
		do    func()
	}{
		{"acquire", 7, p.acquire}, {"release", 4, p.release}, {"unlock", 1, p.unlock}, {"cancel", 1, p.cancel},
		{"steal", 1, p.steal}, {"rename", 1, p.rename},
		{"owner", 1, p.setOwner}, {"heartbeat", 3, p.heartbeat},
		{"shrink", 1, p.shrink}, {"rename file", 1, p.renameFile},
	} {
		for i := range c.times {
			commands[fmt.Sprint(c.name, i)] = func(rt *rapid.T) {
				p.T, p.said = rt, c.name
				c.do()
				p.steps++
				rt.Log(p.said)
			}
		}
	}
	return commands
}

func (p *play) release() {
	if l := p.some(func(*mlock) bool { return true }); l != nil {
		p.finish(l)
	}
}

// finish ends a lock, in the way that its class is ended.
func (p *play) finish(l *mlock) {
	if whole(l) {
		p.said = fmt.Sprintf("release %d", l.id)
		p.table.Release(l.real)
		p.model.end(l)
		p.model.settle()
		return
	}
	p.said = fmt.Sprintf("close %s %d", l.keys[0], l.client)
	p.table.Unlock(l.keys[0], l.class, l.client, Whole)
	p.model.unlock(l.keys[0], l.class, l.client, ^uint16(0))
}

func (p *play) cancel() {
	l := p.some(func(l *mlock) bool { return true })
	if l == nil {
		return
	}
	p.said = fmt.Sprintf("cancel %d", l.id)
	if got := p.table.Cancel(l.real, nil); got != l.waiting {
		p.Fatalf("%s: %v", p.said, got)
	}
	if l.waiting {
		p.model.end(l)
		p.model.settle()
	}
}

func (p *play) unlock() {
	r := p.clientRequest()
	p.said = fmt.Sprintf("unlock %s %v %d %d-%d", r.Keys[0], r.Class, r.Client, r.Range.Start, r.Range.End)
	p.table.Unlock(r.Keys[0], r.Class, r.Client, r.Range)
	p.model.unlock(r.Keys[0], r.Class, r.Client, bits(r))
}

// request draws a request of any class.
func (p *play) request() Request {
	if p.pick("class", 3) == 0 {
		return p.clientRequest()
	}
	r := cast[p.pick("owner", len(cast))]
	for range 1 + p.pick("keys", 3) {
		if p.pick("tree", 5) == 1 {
			r.Trees = append(r.Trees, p.key())
		} else {
			r.Keys = append(r.Keys, p.key())
		}
	}
	r.Mode = Exclusive - Mode(p.pick("mode", 3))
	r.Gate = p.pick("gate", 4) == 1
	r.Yields, r.Steal = p.pick("yields", 4) == 1, p.pick("steal", 8) == 1
	r.Weak = r.Gate && p.pick("weak", 6) == 1
	return p.moment(r)
}

// clientRequest draws a Flock or Posix request. Each client belongs to one key,
// as an open file does.
func (p *play) clientRequest() Request {
	r := cast[p.pick("owner", len(cast))]
	r.Keys = []Key{p.key()}
	r.Mode = []Mode{Exclusive, Shared}[p.pick("mode", 2)]
	r.Class = Flock + Class(p.pick("class", 2))
	r.Client = 1 + uint64(p.pick("client", 3))
	r.Weak = p.pick("weak", 8) == 1
	if r.Class == Flock {
		r.Client += 10 * uint64(slices.Index(keys, r.Keys[0]))
		r.Range = Whole
	} else {
		r.Range.Start = uint64(p.pick("start", 12))
		r.Range.End = r.Range.Start + uint64(p.pick("length", 12-int(r.Range.Start)))
	}
	return p.moment(r)
}

func (p *play) moment(r Request) Request {
	tick := p.pick("since", 8) * 10
	r.Since = Birth{Tick: uint64(tick), PID: int32(tick)}
	r.NoWait = p.pick("nowait", 5) == 1
	r.TTL, r.Now = time.Hour, time.Unix(1, 0)
	return r
}

// bits turns a range into a set of bytes.
func bits(r Request) uint16 {
	var set uint16
	for i := r.Range.Start; i <= r.Range.End && i < 16; i++ {
		set |= 1 << i
	}
	return set
}

// crowd is how many locks there are at most: with more, the model, which asks
// everybody about everybody, gets slow, and nothing else happens.
const crowd = 14

func (p *play) acquire() {
	live := slices.DeleteFunc(slices.Clone(p.model.all), func(l *mlock) bool { return !l.held && !l.waiting })
	if len(live) > crowd {
		p.finish(live[p.pick("lock", len(live))])
		return
	}
	p.model.all = append(p.forget(len(p.model.all)-len(live)-crowd/2), live...)
	r := p.request()
	p.ids++
	a := &mlock{
		id: p.ids, keys: sortedKeys(slices.Concat(r.Keys, r.Trees)), trees: sortedKeys(r.Trees), mode: r.Mode, class: r.Class,
		client: r.Client, owner: r.Owner, lineage: r.Lineage, since: r.Since, yields: r.Yields, steals: r.Steal,
		gate: r.Gate || len(r.Trees) > 0, weak: r.Weak,
	}
	if r.Class == Posix {
		a.bytes = bits(r)
	}
	r.Label = a.id
	p.said = fmt.Sprintf("acquire %d %v trees %v %v by %v since %d %v %d %d-%d nowait=%v gate=%v weak=%v yields=%v steals=%v",
		a.id, a.keys, a.trees, r.Mode, r.Owner, r.Since.Tick, r.Class, r.Client, r.Range.Start, r.Range.End, r.NoWait, a.gate, a.weak, r.Yields, r.Steal)
	before := labels(p.table.Snapshot().Waiting)
	l, err := p.table.Acquire(r)
	if after := labels(p.table.Snapshot().Waiting); errors.Is(err, ErrWouldBlock) && r.Class != Flock && !p.robbed() && after != before {
		p.Fatalf("%s was refused, and those who wait, %s, became %s", p.said, before, after)
	}
	a.real = l
	p.verdict(a, p.model.acquire(a, r.NoWait), err)
}

// forget returns the locks that have ended without the first n.
func (p *play) forget(n int) []*mlock {
	ended := slices.DeleteFunc(slices.Clone(p.model.all), func(l *mlock) bool { return l.held || l.waiting })
	return ended[max(0, min(n, len(ended))):]
}

// verdict compares the outcome of a request.
func (p *play) verdict(a *mlock, want outcome, err error) {
	got := queued
	switch {
	case errors.Is(err, ErrWouldBlock):
		got = conflict
	case errors.Is(err, ErrDeadlock):
		got = deadlock
	case err != nil:
		p.Fatalf("%s: %v", p.said, err)
	case a.real.Token() != 0:
		got = granted
	}
	if got != want {
		p.Fatalf("%s: %s, %v; the model says %s", p.said, got, err, want)
	}
	if a.real != nil && a.real.Token() == 0 && a.real.Err() != err {
		p.Fatalf("%s: answered %v, Err is %v", p.said, err, a.real.Err())
	}
}

func (p *play) steal() {
	l := p.some(whole)
	if l == nil {
		return
	}
	p.said = fmt.Sprintf("steal %d", l.id)
	var want error
	switch {
	case !l.held:
		want = ErrNotHeld
	case l.failed < Heartbeats:
		want = ErrActive
	}
	if got := p.table.Steal(l.real); got != want {
		p.Fatalf("%s: %v", p.said, got)
	}
	if want != nil {
		return
	}
	p.model.end(l)
	p.model.settle()
}

// robbed reports whether the last command stole something.
func (p *play) robbed() bool { return len(p.table.Stolen()) > 0 }

func (p *play) heartbeat() {
	l := p.some(func(l *mlock) bool { return l.held && whole(l) })
	if l == nil {
		return
	}
	alive := p.pick("alive", 5) == 1
	p.said = fmt.Sprintf("heartbeat %d %v", l.id, alive)
	failed := p.table.Heartbeat(l.real, time.Unix(2, 0), alive)
	p.model.heartbeat(l, alive)
	if l.held && failed != l.failed {
		p.Fatalf("%s: %d failed; the model says %d", p.said, failed, l.failed)
	}
}

func (p *play) shrink() {
	l := p.some(func(l *mlock) bool { return l.class == Session })
	if l == nil {
		return
	}
	gone := []Key{p.key(), p.key()}
	p.said = fmt.Sprintf("shrink %d by %v", l.id, gone)
	want := l.held && slices.ContainsFunc(l.keys, func(k Key) bool { return !slices.Contains(gone, k) })
	if got := p.table.Shrink(l.real, gone); got != want {
		p.Fatalf("%s: %v", p.said, got)
	}
	if want {
		p.model.shrink(l, gone)
	}
}

func (p *play) renameFile() {
	l := p.some(func(l *mlock) bool { return l.held && l.class == Session })
	from, to := p.key(), p.key()
	if l == nil || from == to {
		return
	}
	p.said = fmt.Sprintf("rename file %s %s with %d", from, to, l.id)
	p.table.RenameFiles(FileRename{Rename{From: from, To: to}, l.real})
	p.model.renameFile(map[*mlock]Key{l: from}, map[Key]Key{from: to})
}

func (p *play) rename() {
	from, to := p.key(), p.key()
	nested := below(from, "x")(to) != to || below(to, "x")(from) != from
	if p.pick("exchange", 2) == 0 {
		p.said = fmt.Sprintf("rekey %s %s", from, to)
		p.table.RenameTrees(Rename{From: from, To: to})
		if below(from, "x")(to) != to { // nothing happens
			return
		}
		p.model.rename(below(from, to))
	} else {
		p.said = fmt.Sprintf("exchange %s %s", from, to)
		p.table.RenameTrees(Rename{From: from, To: to}, Rename{From: to, To: from})
		if nested {
			return
		}
		there, back := below(from, to), below(to, from)
		p.model.rename(func(k Key) Key {
			if n := there(k); n != k {
				return n
			}
			return back(k)
		})
	}
}

func (p *play) setOwner() {
	l := p.some(whole)
	if l == nil {
		return
	}
	r := p.moment(cast[p.pick("owner", len(cast))])
	p.said = fmt.Sprintf("owner %d %v", l.id, r.Owner)
	p.table.SetOwner(l.real, r.Owner, r.Since)
	if l.held || l.waiting {
		l.owner, l.since, l.lineage = r.Owner, r.Since, nil
		p.model.settle()
	}
}

// compare fails unless the table is what the model is.
func (p *play) compare() {
	if err := p.table.CheckInvariants(); err != nil {
		p.Fatalf("after %s: %v", p.said, err)
	}
	p.checkTokens()
	snap := p.table.Snapshot()
	if !slices.EqualFunc(snap.Waiting, p.model.order, func(h Holder, a *mlock) bool { return h.Lock == a.real }) {
		p.Fatalf("after %s: there wait %s; in the model %s", p.said, labels(snap.Waiting), ids(p.model.order))
	}
	for _, l := range p.model.all {
		p.checkLock(l)
	}
	held, waiting := p.table.Len()
	if len(snap.Held) != held || len(snap.Waiting) != waiting {
		p.Fatalf("after %s: %d held and %d waiting, but %d and %d in the snapshot", p.said, held, waiting, len(snap.Held), len(snap.Waiting))
	}
}

// checkTokens: what was granted in this step has tokens above all before.
func (p *play) checkTokens() {
	top := p.token
	for _, h := range p.table.Snapshot().Held {
		top = max(top, h.Token)
	}
	for _, l := range p.model.all {
		if l.real != nil && l.held && l.real.Token() > top {
			p.Fatalf("after %s: token %d of lock %d is missing in the snapshot", p.said, l.real.Token(), l.id)
		}
	}
	p.token = top
}

// checkLock compares one lock.
func (p *play) checkLock(l *mlock) {
	if l.class == Posix && l.held {
		if set := p.bytes(l); set != l.bytes {
			p.Fatalf("after %s: lock %d has bytes %012b; the model says %012b", p.said, l.id, set, l.bytes)
		}
		return
	}
	if l.real == nil {
		return
	}
	if l.real.Held() != l.held {
		p.Fatalf("after %s: lock %d held: %v, %v; the model says %v", p.said, l.id, l.real.Held(), l.real.Err(), l.held)
	}
	select {
	case <-l.real.Done():
		if l.waiting {
			p.Fatalf("after %s: lock %d is done, %v; the model lets it wait", p.said, l.id, l.real.Err())
		}
	default:
		if !l.waiting {
			p.Fatalf("after %s: lock %d waits; in the model it does not", p.said, l.id)
		}
		p.checkConflicts(l)
	}
	if l.held || l.waiting {
		if r := l.real.Request(); !slices.Equal(r.Keys, l.keys) || !slices.Equal(r.Trees, l.trees) || r.Mode != l.mode || r.Owner != l.owner || r.Since != l.since {
			p.Fatalf("after %s: lock %d is %+v; the model says %+v", p.said, l.id, r, l)
		}
	}
}

// bytes returns the bytes that the pieces of a held Posix lock cover.
func (p *play) bytes(l *mlock) (set uint16) {
	for _, h := range p.table.Snapshot().Held {
		if h.Label == l.id {
			set |= bits(Request{Range: h.Range})
		}
	}
	return set
}

// checkConflicts compares whom a waiter waits for.
func (p *play) checkConflicts(l *mlock) {
	got, want := make(map[any]bool), make(map[any]bool)
	for _, h := range p.table.Conflicts(l.real, math.MaxInt) {
		got[h.Label] = true
	}
	hs, bs := p.model.waitsFor(l)
	for _, x := range append(hs, bs...) {
		want[x.label()] = true
	}
	if !maps.Equal(got, want) {
		for _, h := range p.table.Conflicts(l.real, math.MaxInt) {
			if !want[h.Label] {
				p.Logf("TABLE ONLY %+v guest=%v", h, h.Lock.stand.Guest)
			}
		}
		for _, x := range append(hs, bs...) {
			if !got[x.label()] {
				p.Logf("MODEL ONLY %+v", x)
			}
		}
		p.Logf("WAITER %+v", l)
		for _, x := range p.model.all {
			if x.held && slices.ContainsFunc(x.places(), l.at) {
				p.Logf("HELD %+v", x)
			}
		}
		p.Fatalf("after %s: lock %d waits for %v; the model says %v", p.said, l.id, got, want)
	}
}

// label is what the table calls the lock.
func (a *mlock) label() any {
	if a.real != nil {
		return a.real.Request().Label
	}
	return a.id
}

func labels(hs []Holder) string {
	var out []string
	for _, h := range hs {
		out = append(out, fmt.Sprint(h.Label))
	}
	return strings.Join(out, " ")
}

func ids(ls []*mlock) string {
	var out []string
	for _, l := range ls {
		out = append(out, fmt.Sprint(l.id))
	}
	return strings.Join(out, " ")
}
