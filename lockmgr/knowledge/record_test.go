package knowledge

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"latchfs/lockmgr"
)

// oldState is a table as the last release that wrote it whole has left it.
const oldState = `{"format":3,"boot":"x","files":[{"key":"Zg==","changes":[` +
	`{"number":1,"stamp":{"dev":1,"ino":7},"author":{"pid":5,"program":"sed","time":"2026-01-02T03:04:05.000000006Z"},"owners":[{"PID":5,"Start":3}]},` +
	`{"number":2,"stamp":{"dev":1,"ino":8},"author":{"time":"2026-01-02T03:05:05Z"}}],` +
	`"facts":[{"owner":{"PID":5,"Start":3},"own":{"number":1,"through":1,"at":"2026-01-02T03:04:05.000000006Z","made":true}}]}]}`

// What an earlier release has left is there, and is news for the log.
func TestLoad(t *testing.T) {
	table := New(fade)
	if err := table.Load([]byte(oldState), "x"); err != nil {
		t.Fatal(err)
	}
	table.checkInvariants(t)
	sed := []lockmgr.Owner{{PID: 5, Start: 3}}
	now := time.Date(2026, 1, 2, 3, 6, 0, 0, time.UTC)
	for _, table := range []*Table{table, replayed(t, slices.Collect(table.Unsaved("x")), "x")} {
		b := table.Check(now, "f", Stamp{Dev: 1, Ino: 8}, sed, fade, Makers)
		if !b.Stale || !b.Made || b.Version != 1 || b.Stamp.Ino != 7 {
			t.Errorf("sed knows %+v", b)
		}
	}
	if err := New(fade).Load([]byte(`{"format":2}`), "x"); !errors.Is(err, ErrFormat) {
		t.Errorf("of another format: %v", err)
	}
}

// replayed is a table made of records.
func replayed(t interface{ Fatal(...any) }, records [][]byte, boot string) *Table {
	table := New(fade)
	for _, r := range records {
		if err := table.Replay(r, boot); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// restarted is a table as it is after a restart of the daemon.
func restarted(t interface{ Fatal(...any) }, table *Table, was, is string) *Table {
	return replayed(t, slices.Collect(table.Records(was)), is)
}

// contents is what a restart keeps of a table.
func contents(table *Table) map[Key]kept {
	all := map[Key]kept{}
	for key, e := range table.files {
		all[key] = kept{e.changes, maps.Collect(e.facts.all())}
	}
	return all
}

type kept struct {
	changes []Change
	facts   map[lockmgr.Owner]fact
}

func (k kept) equal(o kept) bool {
	change := func(a, b Change) bool {
		return a.Number == b.Number && a.Stamp == b.Stamp && a.Author.signature() == b.Author.signature() && a.added == b.added &&
			a.Author.Time.Equal(b.Author.Time) && slices.Equal(a.owners, b.owners) && slices.Equal(a.above, b.above)
	}
	sight := func(a, b sighting) bool {
		return a.number == b.number && a.through == b.through && a.made == b.made && a.at.Equal(b.at)
	}
	return slices.EqualFunc(k.changes, o.changes, change) &&
		maps.EqualFunc(k.facts, o.facts, func(a, b fact) bool { return sight(a.own, b.own) && sight(a.lent, b.lent) })
}

func sameTable(t interface{ Fatalf(string, ...any) }, got, want *Table) {
	a, b := contents(got), contents(want)
	if got.facts == want.facts && maps.EqualFunc(a, b, kept.equal) {
		return
	}
	opts := []cmp.Option{
		cmp.AllowUnexported(kept{}, fact{}, sighting{}, Change{}), cmpopts.EquateEmpty(),
	}
	if diff := cmp.Diff(b, a, opts...); diff != "" {
		t.Fatalf("after a restart the table is another (-before +after):\n%s", diff)
	}
	t.Fatalf("%d facts are counted after a restart, before it were %d", got.facts, want.facts)
}

// player does to a table what may happen to it.
type player struct {
	table *Table
	now   time.Time
	ino   uint64
	is    map[Key]Stamp
	dead  map[int32]bool
}

func newPlayer() *player {
	return &player{table: New(fade), now: time.Unix(1000, 1), is: map[Key]Stamp{}, dead: map[int32]bool{}}
}

var played = []Key{"d/f", "d/g", "e/f", "caf\xe9", "//1:2", ""}

func (p *player) who(t *rapid.T) Who {
	pid := int32(rapid.IntRange(1, 9).Draw(t, "process"))
	o := func(n int32) lockmgr.Owner { return lockmgr.Owner{PID: n, Start: uint64(n) << 33} }
	w := Who{Self: o(pid)}
	for n := pid / 2; n > 0; n /= 2 {
		w.Relatives = append(w.Relatives, o(n))
	}
	if pid == 9 {
		w.Above = []lockmgr.Owner{o(77)}
	}
	return w
}

func (p *player) fresh() Stamp {
	p.ino++
	return Stamp{Dev: 1, Ino: p.ino, Size: int64(p.ino * 3), Mtime: p.now.UnixNano()}
}

func (p *player) step(t *rapid.T) {
	p.now = p.now.Add(time.Duration(rapid.Int64Range(1, int64(2*time.Minute)).Draw(t, "pause")))
	key, who, by := rapid.SampledFrom(played).Draw(t, "key"), p.who(t), Author{PID: 3, Program: "sed", Actor: "agent-1", Operation: "rename"}
	switch rapid.SampledFrom([]string{"read", "change", "stranger", "remove", "append", "touch", "move", "share", "forget", "die", "sweep", "check"}).Draw(t, "what") {
	case "read":
		p.table.Saw(p.now, key, p.is[key], who)
	case "change":
		p.is[key] = p.fresh()
		p.table.Changed(p.now, key, p.is[key], who, by)
	case "stranger":
		p.is[key] = p.fresh()
		p.table.Changed(p.now, key, p.is[key], Who{}, Author{})
	case "remove":
		p.is[key] = Stamp{}
		p.table.Changed(p.now, key, Stamp{}, who, by)
	case "append":
		before := p.is[key]
		p.is[key] = p.fresh()
		p.table.Added(p.now, key, before, p.is[key], who, by)
	case "touch":
		before := p.is[key]
		p.is[key] = p.fresh()
		p.table.Restamp(key, before, p.is[key])
	case "move":
		p.table.Moved(p.now, "d", "e", rapid.Bool().Draw(t, "exchanged"), who, by)
	case "share":
		p.table.Share(key, rapid.SampledFrom(played).Draw(t, "other"))
	case "forget":
		p.table.Forget(key)
	case "die":
		p.dead[who.Self.PID] = true
	case "sweep":
		p.table.Sweep(p.now, func(o lockmgr.Owner) bool { return !p.dead[o.PID] })
	case "check":
		p.table.Check(p.now, key, p.fresh(), who.chain(), fade, Readers)
	}
}

// Whatever happens, the log says what the table knows, be it as it grew or begun anew.
func TestLogEqualsTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlayer()
		var log [][]byte
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.step(t)
			switch rapid.IntRange(0, 6).Draw(t, "then") {
			case 0:
				log = slices.AppendSeq(log, p.table.Unsaved("x"))
			case 1:
				log = slices.Collect(p.table.Records("x"))
			case 2:
				log = slices.AppendSeq(log, p.table.Unsaved("x"))
				p.table = replayed(t, log, "x")
			}
		}
		log = slices.AppendSeq(log, p.table.Unsaved("x"))
		sameTable(t, replayed(t, log, "x"), p.table)
		sameTable(t, replayed(t, slices.Collect(p.table.Records("x")), "x"), p.table)
		for range p.table.Unsaved("x") {
			t.Fatal("something is unsaved although nothing has happened")
		}
		for _, r := range log {
			if bytes.IndexByte(r, 0) >= 0 || len(r) > 1<<20 {
				t.Fatalf("no log takes %q", r)
			}
		}
	})
}

// A file that is read by many more processes than one record holds is kept whole, and of
// a log that ends between two of the records the first are good.
func TestManyReadersAreKept(t *testing.T) {
	table := New(fade)
	const readers = 3*factsAtOnce + 7
	for i := range readers {
		table.Saw(time.Unix(int64(i), 0), "hot", Stamp{Ino: 1}, Who{Self: lockmgr.Owner{PID: int32(i + 1), Start: 1}})
	}
	log := slices.Collect(table.Unsaved("x"))
	sameTable(t, replayed(t, log, "x"), table)
	sameTable(t, restarted(t, table, "x", "x"), table)
	half := replayed(t, log[:2], "x")
	half.checkInvariants(t)
	if _, facts := half.Size(); facts != 2*factsAtOnce {
		t.Errorf("%d facts of two records, want %d", facts, 2*factsAtOnce)
	}
	if again := restarted(t, table, "x", "x"); again.Live() != table.Live() {
		t.Errorf("%d bytes count after a restart, before it were %d", again.Live(), table.Live())
	}
	table.Sweep(time.Unix(readers, 0).Add(2*fade), func(lockmgr.Owner) bool { return false })
	log = slices.AppendSeq(log, table.Unsaved("x"))
	if again := replayed(t, log, "x"); len(again.files) != 0 || again.Live() != 0 || table.Live() != 0 {
		t.Errorf("%d keys are there after all were forgotten, and %d bytes count", len(again.files), again.Live())
	}
}

// A name that was made and is forgotten before anybody has saved it costs nothing.
func TestForgottenNamesCostNothing(t *testing.T) {
	table := New(fade)
	who := Who{Self: lockmgr.Owner{PID: 1, Start: 1}}
	for i := range 100 {
		key := Key(fmt.Sprint("t", i))
		table.Changed(time.Unix(1, 0), key, Stamp{Ino: 1}, who, Author{})
		table.Forget(key)
	}
	for r := range table.Unsaved("x") {
		t.Errorf("%d bytes say nothing", len(r))
	}
}

// What a record says is the same in any run of the program: it names every field there is.
func TestNothingIsLeftOut(t *testing.T) {
	by := Author{PID: 1, UID: 2, Program: "p", Actor: "a", Operation: "o", Time: time.Unix(5, 6)}
	for i := range reflect.TypeFor[Author]().NumField() {
		if reflect.ValueOf(by).Field(i).IsZero() {
			t.Errorf("the test, and maybe the record, leaves %s out", reflect.TypeFor[Author]().Field(i).Name)
		}
	}
	table := New(fade)
	who := Who{Self: lockmgr.Owner{PID: 4, Start: 1 << 60}, Relatives: []lockmgr.Owner{{PID: 3, Start: 9}}, Above: []lockmgr.Owner{{PID: 2}}}
	table.Changed(by.Time, "f", Stamp{1 << 63, 1<<64 - 1, -5, -6}, who, by)
	table.Added(by.Time, "f", Stamp{1 << 63, 1<<64 - 1, -5, -6}, Stamp{2, 3, 4, 5}, who, by)
	sameTable(t, restarted(t, table, "x", "x"), table)
	if got := restarted(t, table, "x", "x").files["f"].changes[0].Author; !got.Time.Equal(by.Time) || got.signature() != by.signature() {
		t.Errorf("%+v", got)
	}
}

func TestStuffing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 1, 2, 255}), 0, 1000).Draw(t, "bytes")
		if n := rapid.IntRange(0, 600).Draw(t, "run"); n > 0 {
			b = append(b, bytes.Repeat([]byte{7}, n)...)
		}
		stuffed := stuff(nil, b)
		if bytes.IndexByte(stuffed, 0) >= 0 || len(stuffed) > len(b)+len(b)/254+1 {
			t.Fatalf("%d bytes became %d: %v", len(b), len(stuffed), stuffed)
		}
		if got, err := unstuff(stuffed); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%v became %v: %v", b, got, err)
		}
	})
}

// Every record that was cut short is refused, and nothing has changed then.
func TestCutRecords(t *testing.T) {
	table := New(fade)
	who := Who{Self: lockmgr.Owner{PID: 4, Start: 1}, Relatives: []lockmgr.Owner{{PID: 3, Start: 9}}}
	for _, key := range []Key{"d/f", "d/g"} {
		table.Saw(time.Unix(1, 0), key, Stamp{Ino: 1}, who)
		table.Changed(time.Unix(1, 0), key, Stamp{Ino: 2}, who, Author{Program: "sed"})
	}
	record := slices.Collect(table.Records("x"))[0]
	raw, err := unstuff(record)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for n := range raw {
		again := New(fade)
		err := again.Replay(stuff(nil, raw[:n]), "x")
		if keys, facts := again.Size(); err != nil && (!errors.Is(err, ErrFormat) || keys != 0 || facts != 0) {
			t.Fatalf("of %d bytes: %v, and %d keys are there", n, err, keys)
		}
		if err != nil {
			cut++
		}
		again.checkInvariants(t)
	}
	if cut < len(raw)-3 { // the life of the machine alone, or with the first key, is a record
		t.Errorf("only %d of %d cut records were refused", cut, len(raw))
	}
}

// FuzzReplay: a record that is not ours is refused, and leaves the table as it was.
func FuzzReplay(f *testing.F) {
	table := New(fade)
	who := Who{Self: lockmgr.Owner{PID: 1, Start: 1}, Relatives: []lockmgr.Owner{{PID: 2, Start: 1}}, Above: []lockmgr.Owner{{PID: 3, Start: 1}}}
	table.Saw(time.Unix(1, 0), "f", Stamp{Ino: 1}, who)
	table.Changed(time.Unix(2, 0), "f", Stamp{Ino: 2}, who, Author{PID: 1, Program: "sed", Operation: "rename"})
	add := func(records [][]byte) {
		for _, r := range records {
			raw, err := unstuff(r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw)
		}
	}
	add(slices.Collect(table.Unsaved("x")))
	table.Forget("f")
	table.Changed(time.Unix(2, 0), "g", Stamp{Ino: 2}, who, Author{})
	add(slices.Collect(table.Unsaved("x")))
	e := newEncoder("x")
	e.begin("old", more)
	e.uint(1)
	e.fact(who.Self, fact{own: sighting{number: 1, through: 1, at: time.Unix(3, 0)}})
	add([][]byte{stuff(nil, e.b)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		table := New(fade)
		table.Saw(time.Unix(1, 0), "old", Stamp{Ino: 1}, who)
		before := restarted(t, table, "x", "x")
		if err := table.Replay(stuff(nil, raw), "x"); err != nil {
			sameTable(t, table, before)
		}
		table.checkInvariants(t)
		sameTable(t, restarted(t, table, "x", "x"), table)
		_ = table.Replay(raw, "x") // as it may stand in a file
		table.checkInvariants(t)
		table.Check(time.Unix(1, 0), "f", Stamp{}, []lockmgr.Owner{{PID: 1}}, fade, Readers)
	})
}
