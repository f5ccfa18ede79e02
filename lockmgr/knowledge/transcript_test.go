package knowledge

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"latchfs/lockmgr"
)

// TestTranscripts replays testdata/transcripts, which say what counts as knowledge
// in every situation; testdata/README explains the commands. To write the outcomes
// anew, run the test with -rewrite and read the diff.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			s.table.checkInvariants(t)
			return out
		})
	})
}

// stage is where a transcript plays: processes with their parents, files with the
// stamps that they have, and a clock that passes alone moves.
type stage struct {
	table   *Table
	now     time.Time
	parents map[string]string
	owners  map[string]lockmgr.Owner
	names   map[lockmgr.Owner]string
	dead    map[lockmgr.Owner]bool
	stamps  map[Key]Stamp
	next    uint64
	opened  Stamp // by read-before
	removed map[Key]Stamp
	users   map[string]uint32
}

const fade = 10 * time.Minute

func newStage() *stage {
	return &stage{
		table: New(fade), now: time.Unix(1000, 0), parents: map[string]string{}, owners: map[string]lockmgr.Owner{},
		names: map[lockmgr.Owner]string{}, dead: map[lockmgr.Owner]bool{}, stamps: map[Key]Stamp{}, removed: map[Key]Stamp{},
		users: map[string]uint32{},
	}
}

func (s *stage) owner(name string) lockmgr.Owner {
	o, ok := s.owners[name]
	if !ok {
		o = lockmgr.Owner{PID: int32(len(s.owners) + 10), Start: 1}
		s.owners[name], s.names[o] = o, name
	}
	return o
}

func (s *stage) who(name string) Who {
	if name == "stranger" {
		return Who{}
	}
	w := Who{Self: s.owner(name)}
	for p := s.parents[name]; p != ""; p = s.parents[p] {
		switch {
		case p == "prompt":
			if len(w.Relatives) == 0 {
				w.Shell = s.owner(p)
			}
			return w
		case len(w.Relatives) < 3:
			w.Relatives = append(w.Relatives, s.owner(p))
		default:
			w.Above = append(w.Above, s.owner(p))
		}
	}
	return w
}

// fresh is a stamp that nothing had before.
func (s *stage) fresh() Stamp {
	s.next++
	return Stamp{Dev: 1, Ino: s.next, Size: 10, Mtime: s.now.UnixNano()}
}

func (s *stage) run(t *testing.T, d *datadriven.TestData) string {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		return ""
	}
	key := Key(arg(1))
	by := Author{Program: arg(0), UID: s.users[arg(0)]}
	switch d.Cmd {
	case "user": // user WHO UID
		uid, _ := strconv.ParseUint(arg(1), 10, 32)
		s.users[arg(0)] = uint32(uid)
		return "ok\n"
	case "family": // family child parent grandparent ...
		for i := 1; i < len(d.CmdArgs); i++ {
			s.parents[arg(i-1)] = arg(i)
		}
		return "ok\n"
	case "pass":
		span, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(span)
		return "ok\n"
	case "read":
		if !s.table.Saw(s.now, key, s.stamps[key], s.who(arg(0))) {
			s.table.Found(s.now, key, s.stamps[key])
			s.table.Saw(s.now, key, s.stamps[key], s.who(arg(0)))
		}
		return "ok\n"
	case "read-old": // through a descriptor of an inode that was replaced
		return fmt.Sprintf("remembered: %v\n", s.table.Saw(s.now, key, Stamp{Ino: 999}, s.who(arg(0))))
	case "read-before", "read-late": // an open is noted after somebody has replaced the file
		if d.Cmd == "read-before" {
			s.opened = s.stamps[key]
		} else {
			s.table.Saw(s.now, key, s.opened, s.who(arg(0)))
		}
		return "ok\n"
	case "write": // write WHO KEY [TIMES]
		times, _ := strconv.Atoi(arg(2))
		for range max(times, 1) {
			s.stamps[key] = s.fresh()
			s.table.Changed(s.now, key, s.stamps[key], s.who(arg(0)), by)
		}
		return "ok\n"
	case "expect", "expect-failed": // a change that is on the disk, or not, before it is noted
		stamp := s.fresh()
		s.table.Expect(key, stamp, s.who(arg(0)), by)
		if d.Cmd == "expect" {
			s.stamps[key] = stamp
		} else {
			s.table.Expected(key)
		}
		return "ok\n"
	case "append":
		before := s.stamps[key]
		after := before
		after.Size++
		s.stamps[key] = after
		s.table.Added(s.now, key, before, after, s.who(arg(0)), by)
		return "ok\n"
	case "remove":
		s.removed[key] = s.stamps[key]
		delete(s.stamps, key)
		s.table.Changed(s.now, key, Stamp{}, s.who(arg(0)), by)
		return "ok\n"
	case "around": // changed around the mount
		s.stamps[Key(arg(0))] = s.fresh()
		return "ok\n"
	case "touch":
		k := Key(arg(0))
		before := s.stamps[k]
		after := before
		after.Mtime++
		s.stamps[k] = after
		s.table.Restamp(k, before, after)
		return "ok\n"
	case "rename": // rename who from to: the file carries what its writer knew
		to, who := Key(arg(2)), s.who(arg(0))
		writers, _ := s.table.WrittenBy(key, s.stamps[key])
		chain := append(append([]lockmgr.Owner{}, writers...), who.family()...)
		b := s.table.Check(s.now, to, s.stamps[to], chain, fade, Readers)
		if b.Stale && b.IsOwnWork(who, writers) {
			b = s.table.Check(s.now, to, s.stamps[to], who.family(), fade, Readers)
		}
		if b.Stale && b.IsUndo(who, writers) {
			return s.show(b) + "  may undo that\n"
		}
		if b.Stale {
			return s.show(b)
		}
		if src := s.table.Check(s.now, key, s.stamps[key], who.family(), fade, Makers); src.Stale {
			return "of " + string(key) + ": " + s.show(src)
		}
		s.stamps[to] = s.stamps[key]
		delete(s.stamps, key)
		s.table.Changed(s.now, to, s.stamps[to], who, by)
		s.table.Changed(s.now, key, Stamp{}, who, by)
		return s.show(b)
	case "link":
		s.stamps[Key(arg(1))] = s.stamps[Key(arg(0))]
		s.table.Share(Key(arg(0)), Key(arg(1)))
		return "ok\n"
	case "rename-dir", "exchange-dir":
		from, to := Key(arg(1)), Key(arg(2))
		times, _ := strconv.Atoi(arg(3)) // there and back again
		for range max(times, 1) {
			s.moveDir(from, to, d.Cmd == "exchange-dir")
			s.table.Moved(s.now, from, to, d.Cmd == "exchange-dir", s.who(arg(0)), by)
			from, to = to, from
		}
		return "ok\n"
	case "refused", "refused-for":
		b := s.check(arg(0), key)
		self := s.owner(arg(0))
		if d.Cmd == "refused-for" { // refused-for DECIDER KEY SELF: who has put in place what the decider has written
			self = s.owner(arg(2))
		}
		s.table.Refused(s.now, &b, self, d.Cmd == "refused-for")
		return "ok\n"
	case "obeyed":
		b := s.check(arg(0), key)
		s.table.Obeyed(s.now, &b)
		return "ok\n"
	case "back": // renamed away and back again, by somebody unknown
		stamp := s.stamps[Key(arg(0))]
		s.table.Changed(s.now, Key(arg(0)), Stamp{}, Who{}, Author{})
		s.table.Changed(s.now, Key(arg(0)), stamp, Who{}, Author{})
		return "ok\n"
	case "deafen":
		s.table.Deafen(s.now, key, s.owner(arg(0)))
		return "ok\n"
	case "barred":
		return fmt.Sprintf("%v\n", s.table.Barred(s.now, key, s.owner(arg(0))))
	case "restored": // restored KEY: the last version has its name back
		k := Key(arg(0))
		s.stamps[k] = s.removed[k]
		s.table.Restored(k, s.stamps[k])
		return "ok\n"
	case "die":
		s.dead[s.owner(arg(0))] = true
		return "ok\n"
	case "sweep":
		s.table.Sweep(s.now, func(o lockmgr.Owner) bool { return !s.dead[o] })
		keys, facts := s.table.Size()
		return fmt.Sprintf("%d keys, %d facts\n", keys, facts)
	case "restart":
		return s.restart(t, arg(0))
	case "check":
		return s.show(s.check(arg(0), key))
	}
	return "unknown command\n"
}

func (s *stage) check(name string, key Key) Basis {
	return s.table.Check(s.now, key, s.stamps[key], s.who(name).family(), fade, Readers)
}

func (s *stage) moveDir(from, to Key, exchange bool) {
	moved := map[Key]Stamp{}
	for k, st := range s.stamps {
		if rest, ok := strings.CutPrefix(string(k), string(from)+"/"); ok {
			moved[to+"/"+Key(rest)] = st
			delete(s.stamps, k)
		} else if rest, ok := strings.CutPrefix(string(k), string(to)+"/"); ok && exchange {
			moved[from+"/"+Key(rest)] = st
			delete(s.stamps, k)
		}
	}
	for k, st := range moved {
		s.stamps[k] = st
	}
}

func (s *stage) restart(t *testing.T, boot string) string {
	s.table = restarted(t, s.table, "boot-1", boot)
	keys, facts := s.table.Size()
	return fmt.Sprintf("%d keys, %d facts\n", keys, facts)
}

func (s *stage) show(b Basis) string {
	if !b.Known {
		return "knows nothing: may replace it\n"
	}
	verdict := "may replace it"
	switch {
	case b.ForAnother:
		verdict = "STALE, and who puts that in place again insists"
	case b.Insists:
		verdict = "STALE, and it insists"
	case b.Stale:
		verdict = "STALE"
	}
	knows := "knows"
	if b.Made {
		knows = "has made"
	}
	out := fmt.Sprintf("%s %s version %d of %d: %s\n", s.names[b.By], knows, b.Version, b.Current, verdict)
	if !b.Stale {
		return out
	}
	for _, c := range b.Since {
		who := c.Author.Program
		if who == "" {
			who = "somebody unknown"
		}
		if c.Author.UID != 0 {
			who += fmt.Sprintf(" of user %d", c.Author.UID)
		}
		out += fmt.Sprintf("  version %d by %s\n", c.Number, who)
	}
	return out
}

// checkInvariants asserts what holds between any two calls.
func (t *Table) checkInvariants(tt testing.TB) {
	tt.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	facts := 0
	for key, e := range t.files {
		facts += e.facts.len()
		if n := len(e.changes); n == 0 || n > remembered {
			tt.Errorf("%q remembers %d changes", key, n)
		}
		for i := 1; i < len(e.changes); i++ {
			if e.changes[i].Number != e.changes[i-1].Number+1 {
				tt.Errorf("%q: version %d follows on %d", key, e.changes[i].Number, e.changes[i-1].Number)
			}
		}
		last := e.current().Number
		for o, k := range e.facts.all() {
			if k.own.through > last || k.lent.through > last {
				tt.Errorf("%q: %v knows a version that is still to come: %+v of %d", key, o, k, last)
			}
			if k.own.number > k.own.through || k.lent.number > k.lent.through {
				tt.Errorf("%q: %v is behind what it knows: %+v", key, o, k)
			}
		}
	}
	bytes := 0
	for _, e := range t.files {
		bytes += e.bytes
	}
	if bytes != t.bytes || bytes > t.most {
		tt.Errorf("%d bytes are counted, and there are %d", t.bytes, bytes)
	}
	if facts != t.facts {
		tt.Errorf("%d facts are counted, and there are %d", t.facts, facts)
	}
}
