package lockmgr

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts replays testdata/transcripts, which say what the table
// does in every situation; testdata/README explains the commands. After every
// command the invariants are checked. To write the outcomes anew, run the test
// with -rewrite and read the diff.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(d)
			if err := s.table.CheckInvariants(); err != nil {
				d.Fatalf(t, "after this command: %v", err)
			}
			return out
		})
	})
}

// stage is where a transcript plays: processes, named locks, and a clock that
// ticks once for every command.
type stage struct {
	table     *Table
	clock     uint64
	time      time.Time // moved by pass alone
	processes map[string]*process
	names     []string // of the locks, in the order of appearance
	locks     map[string]*Lock
	shown     map[string]string // what the transcript has said of a lock
}

type process struct {
	name   string
	owner  Owner
	born   Birth
	parent *process
}

func newStage() *stage {
	return &stage{
		table:     New(Options{}),
		time:      time.Unix(0, 0),
		processes: make(map[string]*process),
		locks:     make(map[string]*Lock),
		shown:     make(map[string]string),
	}
}

func (s *stage) now() Birth { return Birth{Tick: s.clock, PID: 100 + int32(len(s.processes))} }

// process returns a process by name, born now if it is not known.
func (s *stage) process(name, parent string, foreign bool) *process {
	if p := s.processes[name]; p != nil {
		return p
	}
	p := &process{name: name}
	if parent != "" {
		p.parent = s.process(parent, "", false)
	}
	pid := 101 + int32(len(s.processes))
	p.owner = Owner{PID: pid, Start: s.clock}
	if foreign {
		p.owner = Owner{PID: 0, Start: uint64(pid)}
	}
	p.born = Birth{Tick: s.clock, PID: pid}
	s.processes[name] = p
	return p
}

func (p *process) lineage() []Ancestor {
	var as []Ancestor
	for ; p.parent != nil; p = p.parent {
		as = append(as, Ancestor{Owner: p.parent.owner, Child: p.born})
	}
	return as
}

// run plays one command and says what it changed.
func (s *stage) run(d *datadriven.TestData) string {
	s.clock++
	var said string
	switch d.Cmd {
	case "process":
		for _, a := range d.CmdArgs {
			if a.Key != "parent" && a.Key != "foreign" {
				s.process(a.Key, scan(d, "parent"), d.HasArg("foreign"))
			}
		}
		return ""
	case "snapshot":
		return s.snapshot()
	case "acquire":
		said = s.acquire(d)
	case "test":
		if h := s.table.Test(s.request(d)); h != nil {
			return "would wait for " + s.describe(h) + "\n"
		}
		return "would be granted\n"
	default:
		said = s.change(d)
	}
	said += s.news()
	if said == "" {
		return "nothing changes\n"
	}
	return said
}

// change plays a command that is told by its effects alone.
func (s *stage) change(d *datadriven.TestData) string {
	first := d.CmdArgs[0].Key
	l := s.locks[first]
	switch d.Cmd {
	case "release":
		for _, a := range d.CmdArgs {
			s.table.Release(s.locks[a.Key])
		}
	case "cancel":
		if !s.table.Cancel(l, errors.New("cancelled")) {
			return "nothing to cancel\n"
		}
	case "steal":
		if err := s.table.Steal(l); err != nil {
			return err.Error() + "\n"
		}
	case "revoke":
		if err := s.table.Revoke(l); err != nil {
			return err.Error() + "\n"
		}
	case "miss":
		times := uint64(1)
		if n := scan(d, "times"); n != "" {
			times = number(n)
		}
		for range times {
			s.table.Heartbeat(l, s.time, false)
		}
	case "beat":
		s.table.Heartbeat(l, s.time, true)
	case "pass":
		s.time = s.time.Add(time.Duration(number(strings.TrimSuffix(first, "s"))) * time.Second)
		return s.due()
	case "owner":
		s.table.SetOwner(l, s.process(scan(d, "to"), "", false).owner, s.now())
	case "rekey":
		s.table.RenameTrees(Rename{From: Key(first), To: Key(scan(d, "to"))})
	case "move":
		s.table.RenameFiles(FileRename{Rename{From: Key(first), To: Key(scan(d, "to"))}, s.locks[scan(d, "with")]})
	case "turn":
		var renames []FileRename
		for _, a := range d.CmdArgs {
			renames = append(renames, FileRename{Rename: Rename{From: Key(a.Key), To: Key(a.Vals[0])}})
		}
		s.table.RenameFiles(renames...)
	case "shrink":
		if !s.table.Shrink(l, []Key{Key(scan(d, "by"))}) {
			return "cannot be\n"
		}
	case "exchange":
		a, b := Key(first), Key(scan(d, "with"))
		s.table.RenameTrees(Rename{From: a, To: b}, Rename{From: b, To: a})
	case "unlock":
		r := s.request(d)
		s.table.Unlock(r.Keys[0], r.Class, r.Client, r.Range)
	case "close":
		r := s.request(d)
		s.table.Unlock(r.Keys[0], r.Class, r.Client, Whole)
	default:
		return "unknown command\n"
	}
	return ""
}

// due says which heartbeats are due at the moment, and when the next one is.
func (s *stage) due() string {
	due, next := s.table.Due(s.time)
	var names []string
	for _, l := range due {
		h := Holder{Lock: l.Lock}
		names = append(names, s.lockName(&h))
	}
	said := "no heartbeat is due"
	if len(names) > 0 {
		said = "heartbeats are due: " + strings.Join(names, ", ")
	}
	if !next.IsZero() {
		said += fmt.Sprintf("; the next in %v", next.Sub(s.time))
	}
	return said + "\n"
}

func (s *stage) acquire(d *datadriven.TestData) string {
	name := d.CmdArgs[0].Key
	l, err := s.table.Acquire(s.request(d))
	if err != nil {
		return fmt.Sprintf("%s: %s\n", name, s.refusal(err))
	}
	s.add(name, l)
	return ""
}

func (s *stage) add(name string, l *Lock) {
	s.names = append(s.names, name)
	s.locks[name] = l
}

// request reads a request: NAME KEY[,KEY...] MODE by=PROCESS [flock=CLIENT |
// posix=CLIENT] [bytes=FROM-TO] [nowait]. NAME is missing where no lock is made.
func (s *stage) request(d *datadriven.TestData) Request {
	r := Request{Mode: mode(d), Range: Whole, NoWait: d.HasArg("nowait"), Since: s.now()}
	words := d.CmdArgs
	if d.Cmd == "acquire" {
		r.Label = words[0].Key
		words = words[1:]
	}
	for _, k := range strings.Split(words[0].Key, ",") {
		if dir, ok := strings.CutSuffix(k, "**"); ok {
			r.Trees = append(r.Trees, Key(strings.TrimSuffix(dir, "/")))
		} else {
			r.Keys = append(r.Keys, Key(k))
		}
	}
	r.Weak = d.HasArg("weak")
	r.Gate, r.Yields, r.Steal, r.Now = d.HasArg("gate"), d.HasArg("yields"), d.HasArg("steal"), s.time
	if ttl := scan(d, "ttl"); ttl != "" {
		r.TTL = time.Duration(number(strings.TrimSuffix(ttl, "s"))) * time.Second
	}
	if name := scan(d, "by"); name != "" {
		p := s.process(name, "", false)
		r.Owner, r.Lineage = p.owner, p.lineage()
	}
	for class, word := range map[Class]string{Flock: "flock", Posix: "posix"} {
		if client := scan(d, word); client != "" {
			r.Class, r.Client = class, number(client)
		}
	}
	if from, to, ok := strings.Cut(scan(d, "bytes"), "-"); ok {
		r.Range.Start = number(from)
		if to != "end" {
			r.Range.End = number(to)
		}
	}
	return r
}

func mode(d *datadriven.TestData) Mode {
	for _, m := range []Mode{Shared, Update} {
		if d.HasArg(m.String()) {
			return m
		}
	}
	return Exclusive
}

// scan returns the value of key=value, or "".
func scan(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// news says what has changed since the last command, lock by lock.
func (s *stage) news() string {
	var b strings.Builder
	for _, name := range s.names {
		if now := s.status(s.locks[name]); now != s.shown[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, now)
			s.shown[name] = now
		}
	}
	return b.String()
}

func (s *stage) status(l *Lock) string {
	select {
	case <-l.Done():
	default:
		return "waits for " + s.list(s.table.Conflicts(l, math.MaxInt))
	}
	if err := l.Err(); err != nil {
		return s.refusal(err)
	}
	r := l.Request()
	if failed, stale := s.failed(l); stale {
		return fmt.Sprintf("held, token %d, stale", l.Token())
	} else if failed > 0 {
		return fmt.Sprintf("held, token %d, heartbeats failed: %d", l.Token(), failed)
	}
	if r.Class == Posix {
		return fmt.Sprintf("held, %s %v, token %d", bytes(r.Range), r.Mode, l.Token())
	}
	return fmt.Sprintf("held, token %d", l.Token())
}

// failed tells of a held lock what its heartbeats say.
func (s *stage) failed(l *Lock) (failed int, stale bool) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return l.lease.Failed(), l.expired()
}

func (s *stage) refusal(err error) string {
	var c *ConflictError
	var d *DeadlockError
	switch {
	case errors.As(err, &c):
		return "would wait for " + s.list(c.Holders)
	case errors.As(err, &d):
		var steps []string
		for _, w := range d.Cycle {
			steps = append(steps, fmt.Sprintf("%s waits for %s at %s", s.name(w.Waiter.Owner), s.describe(&w.Blocker), w.Key))
		}
		return "deadlock, refused: " + strings.Join(steps, "; ")
	}
	return err.Error()
}

func (s *stage) list(hs []Holder) string {
	var out []string
	for _, h := range hs {
		out = append(out, s.lockName(&h))
	}
	return strings.Join(out, ", ")
}

// describe names a lock and whose it is.
func (s *stage) describe(h *Holder) string {
	if h.Class == Posix {
		return fmt.Sprintf("%s of %s, %s", s.lockName(h), s.name(h.Owner), bytes(h.Range))
	}
	return fmt.Sprintf("%s of %s", s.lockName(h), s.name(h.Owner))
}

// lockName is the name of a lock; what was split off another has none of its
// own.
func (s *stage) lockName(h *Holder) string {
	for _, name := range s.names {
		if s.locks[name] == h.Lock {
			return name
		}
	}
	return fmt.Sprintf("%v", h.Label)
}

func (s *stage) name(o Owner) string {
	for _, p := range s.processes {
		if p.owner == o {
			return p.name
		}
	}
	return o.String()
}

func bytes(r Range) string {
	if r.End == Whole.End {
		return fmt.Sprintf("bytes %d-end", r.Start)
	}
	return fmt.Sprintf("bytes %d-%d", r.Start, r.End)
}

// written are a lock's keys as a transcript writes them.
func written(h Holder) []Key {
	out := slices.Clone(h.Keys)
	for i, k := range out {
		if slices.Contains(h.Trees, k) {
			out[i] = Key(strings.TrimPrefix(string(k)+"/**", "/"))
		}
	}
	return out
}

// snapshot draws the table key by key, from the public snapshot alone.
func (s *stage) snapshot() string {
	snap := s.table.Snapshot()
	keys := make(map[Key][]string)
	for _, h := range snap.Held {
		line := fmt.Sprintf("  held     %s, %v, token %d", s.describe(&h), h.Mode, h.Token)
		for _, k := range written(h) {
			keys[k] = append(keys[k], line)
		}
	}
	for _, h := range snap.Waiting {
		line := fmt.Sprintf("  waiting  %s, %v, for %s", s.describe(&h), h.Mode, s.list(s.table.Conflicts(h.Lock, math.MaxInt)))
		for _, k := range written(h) {
			keys[k] = append(keys[k], line)
		}
	}
	if len(keys) == 0 {
		return "empty\n"
	}
	var b strings.Builder
	for _, k := range slices.Sorted(func(yield func(Key) bool) {
		for k := range keys {
			if !yield(k) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "%s\n%s\n", k, strings.Join(keys[k], "\n"))
	}
	return b.String()
}
