package ctl

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"latchfs/fs/control"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// People are told local time. It is set before any test starts a goroutine that tells it.
func init() { time.Local = time.UTC }

// TestTranscripts replays testdata/transcripts, which say what each request does;
// testdata/README explains the commands. To write the outcomes anew, run the test with
// -rewrite and read the diff.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			defer s.leave(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out := s.run(t, d)
				synctest.Wait()
				return out + s.told()
			})
		})
	})
}

// leave ends everything, and looks whether anything is left.
func (s *stage) leave(t *testing.T) {
	for _, cv := range s.talks {
		cv.Close()
	}
	for _, p := range s.procs {
		p.die()
	}
	synctest.Wait()
	close(s.done)
	synctest.Wait()
	if n := s.Claims.Count(); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	for _, p := range s.procs {
		if used := s.Book.Used(p.uid); used != 0 {
			t.Errorf("user %d is charged for %d bytes, and has nothing", p.uid, used)
		}
	}
	if len(s.txns) > 0 {
		t.Errorf("%d transactions are left", len(s.txns))
	}
	for _, m := range []interface{ TryLock() bool }{&s.Claims.mu, &s.Actors.mu, &s.paths} {
		if !m.TryLock() {
			t.Errorf("a mutex is held: %T", m)
		}
	}
}

func (p *process) die() {
	if !p.isDead() {
		close(p.dead)
	}
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// told is what has been told since it was last asked: replies and events.
func (s *stage) told() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.talks)) {
		cv := s.talks[name]
		buf := make([]byte, 1<<20)
		n, _ := cv.Read(nil, 0, true, buf)
		for _, line := range inOrder(slices.Collect(strings.Lines(string(buf[:n])))) {
			fmt.Fprintf(&b, "%s: %s", name, line)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.events)
	for _, e := range s.events {
		fmt.Fprintf(&b, "event: %s\n", e)
	}
	s.events = nil
	return b.String()
}

var replyID = regexp.MustCompile(`"id":"([0-9]+)"`)

// inOrder puts replies that stand together, and have the ids of their requests, in the order
// of these. Which of two comes first is nobody's promise: a request that waited is answered
// by whoever finds that its wait is over.
func inOrder(replies []string) []string {
	id := func(reply string) (n int, ok bool) {
		m := replyID.FindStringSubmatch(reply)
		if m == nil {
			return 0, false
		}
		n, err := strconv.Atoi(m[1])
		return n, err == nil
	}
	for i := 0; i < len(replies); i++ {
		first := i
		for i < len(replies) {
			if _, ok := id(replies[i]); !ok {
				break
			}
			i++
		}
		slices.SortStableFunc(replies[first:i], func(a, b string) int {
			m, _ := id(a)
			n, _ := id(b)
			return m - n
		})
	}
	return replies
}

// run plays one command.
func (s *stage) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var first string
	if len(d.CmdArgs) > 0 {
		first = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "process":
		s.runProcess(d, first)
	case "file":
		f := file{uid: uint32(number(d, "uid")), shared: d.HasArg("shared")}
		f.ttl, _ = time.ParseDuration(text(d, "ttl"))
		s.files[first] = f
	case "kept":
		s.kept[first] = append(s.kept[first], uint32(number(d, "uid")))
	case "left":
		left := Unerased{Below: d.HasArg("below")}
		if names := text(d, "names"); names != "" {
			left.Names = strings.Split(names, "+")
		}
		s.left[first] = left
	case "open":
		p := s.procs[text(d, "by")]
		cv := s.Open(p, proc.File{Ino: uint64(len(s.talks) + 1)})
		s.talks[first], s.given[cv] = cv, map[int32]int{p.owner.PID: 1}
	case "pass":
		s.given[s.talks[first]][s.procs[text(d, "to")].owner.PID]++
	case "write":
		_, e := s.talks[first].Write(s.procs[text(d, "by")], [][]byte{[]byte(d.Input + "\n")})
		if e != 0 {
			return e.Error() + "\n"
		}
	case "flush":
		p := s.procs[text(d, "by")]
		p.exiting = d.HasArg("exiting")
		s.given[s.talks[first]][p.owner.PID]--
		s.talks[first].Flush(p)
	case "close":
		s.talks[first].Close()
		delete(s.talks, first)
	case "die":
		s.procs[first].die()
	case "sleep":
		dur, _ := time.ParseDuration(first)
		time.Sleep(dur)
	case "stop":
		s.stopping = true
		close(s.draining)
	default:
		return s.runMore(d, first)
	}
	return ""
}

// runMore plays what happens to locks beside the requests.
func (s *stage) runMore(d *datadriven.TestData, first string) string {
	switch d.Cmd {
	case "lock": // as an open of the file does
		ttl, _ := time.ParseDuration(text(d, "ttl"))
		if _, err := s.open(s.procs[text(d, "by")], first, ttl); err != nil {
			return err.Error() + "\n"
		}
	case "expire":
		for _, h := range s.Table.Snapshot().Held {
			if strconv.FormatUint(h.Token, 10) == first {
				for range lockmgr.Heartbeats {
					s.Table.Heartbeat(h.Lock, time.Now(), false)
				}
			}
		}
		s.SettleThefts(nil)
	case "rename":
		s.rename(first, d.CmdArgs[1].Key)
	case "miss":
		s.missed++
	case "fail":
		s.tokens = nil
		if first != "" {
			s.tokens = errors.New(first)
		}
	case "outcome":
		s.outcome = outcome{refused: first == "refused"}
		if first != "committed" {
			s.outcome.err = errors.New(first)
		}
	case "fenced":
		err := s.Fenced(s.procs[text(d, "by")], []lockmgr.Key{lockmgr.Key(first)})
		return fmt.Sprintf("%v\n", err)
	case "label":
		return fmt.Sprintf("%q\n", s.Actors.Of(s.procs[first]))
	case "used":
		return fmt.Sprintf("%d\n", s.Book.Used(uint32(number(d, "uid"))))
	case "claim":
		return s.describe(s.Claims.ByID(first))
	case "table":
		return s.table()
	default:
		return "unknown command\n"
	}
	return ""
}

func (s *stage) runProcess(d *datadriven.TestData, name string) {
	p := s.procs[name]
	if p == nil {
		p = s.start(name, int32(number(d, "pid")), uint32(number(d, "uid")), s.procs[text(d, "parent")])
	}
	p.foreign, p.inner = d.HasArg("foreign"), int32(number(d, "inner"))
	if v := text(d, "agent"); v != "" {
		p.env["AGENT"] = v
	}
	if v := text(d, "session"); v != "" {
		p.env[control.SessionEnv] = v
	}
	if d.HasArg("orphan") {
		p.parent = nil
	}
}

// rename renames a directory, and everybody who uses paths waits.
func (s *stage) rename(from, to string) {
	s.paths.Lock()
	defer s.paths.Unlock()
	s.Table.RenameTrees(lockmgr.Rename{From: lockmgr.Key(from), To: lockmgr.Key(to)})
	s.Claims.Follow(func(path string) string {
		if rest, ok := strings.CutPrefix(path, from); ok && (rest == "" || rest[0] == '/') {
			return to + rest
		}
		return path
	})
}

// describe says what a claim is.
func (s *stage) describe(cl *Claim) string {
	if cl == nil {
		return "none\n"
	}
	var joined []string
	for _, o := range s.Claims.JoinedBy(cl) {
		joined = append(joined, s.byPID(o.PID).name)
	}
	before := "nobody"
	if a := cl.Joined(); a != nil {
		before = s.byPID(a.Owner.PID).name
	}
	return fmt.Sprintf("%s at %q on %+v for %q, of %s; joined by %v, has joined %s; used after %v\n", cl.ID(), cl.Where(), cl.Target(),
		cl.Op, s.byPID(s.Claims.LockOf(cl).Owner().PID).name, joined, before, cl.LastUse().Sub(cl.LastUse().Truncate(time.Hour)))
}

// table says what is in the lock table.
func (s *stage) table() string {
	var b strings.Builder
	snap := s.Table.Snapshot()
	show := func(state string, list []lockmgr.Holder) {
		for _, h := range list {
			fmt.Fprintf(&b, "%s %v %s by %s\n", state, h.Keys, h.Mode, s.byPID(h.Owner.PID).name)
		}
	}
	show("held", snap.Held)
	show("waiting", snap.Waiting)
	return b.String()
}

func text(d *datadriven.TestData, key string) (v string) {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			v = a.Vals[0]
		}
	}
	return v
}

func number(d *datadriven.TestData, key string) int {
	n, _ := strconv.Atoi(text(d, key))
	return n
}
