package ctl

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// talk opens a conversation of a new process of a user.
func (s *stage) talk(name string, pid int32, uid uint32) (*Conversation, *process) {
	p := s.start(name, pid, uid, nil)
	cv := s.Open(p, proc.File{Ino: uint64(len(s.talks) + 1)})
	s.talks[name], s.given[cv] = cv, map[int32]int{pid: 1}
	return cv, p
}

// ask writes requests.
func ask(t *testing.T, cv *Conversation, lines ...string) {
	t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	if n, e := cv.Write(cv.Opener(), [][]byte{[]byte(text)}); e != 0 || n != len(text) {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(text), e)
	}
}

// answers reads what is there.
func answers(cv *Conversation) string {
	buf := make([]byte, 64<<10)
	n, _ := cv.Read(nil, 0, true, buf)
	return string(buf[:n])
}

// reading starts a read, which tells what it came to.
func reading(cv *Conversation, cancel <-chan struct{}, p *process) <-chan unix.Errno {
	done := make(chan unix.Errno, 1)
	go func() {
		_, e := cv.Read(cancel, p.TID(), false, make([]byte, 4096))
		done <- e
	}()
	return done
}

func isOver(done <-chan unix.Errno) bool {
	synctest.Wait()
	return len(done) > 0
}

// A read waits as long as a reply is to come, and no longer.
func TestReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		a, p := s.talk("a", 10, 1000)
		b, _ := s.talk("b", 11, 1000)
		buf := make([]byte, 4096)
		if n, e := a.Read(nil, p.TID(), false, buf); n != 0 || e != 0 {
			t.Errorf("nothing was asked for, and a read gives %d bytes, %v", n, e)
		}
		ask(t, b, `{"op":"acquire","paths":["f"]}`)
		ask(t, a, `{"op":"acquire","paths":["f"],"wait":"forever"}`)
		if _, e := a.Read(nil, p.TID(), true, buf); e != unix.EAGAIN {
			t.Errorf("a read that does not wait: %v", e)
		}
		done := reading(a, nil, p)
		if isOver(done) {
			t.Fatal("the read does not wait")
		}
		ask(t, b, `{"op":"release","all":true}`)
		if !isOver(done) || <-done != 0 {
			t.Error("the read did not get the reply")
		}
		// A reply that is longer than the buffer comes in pieces.
		ask(t, a, `{"op":"list","id":"x"}`)
		var all bytes.Buffer
		for {
			n, e := a.Read(nil, p.TID(), false, buf[:7])
			if e != 0 {
				t.Fatal(e)
			}
			if n == 0 {
				break
			}
			all.Write(buf[:n])
		}
		if !strings.HasPrefix(all.String(), `{"ok":true,"id":"x","locks":[`) || !strings.HasSuffix(all.String(), "}\n") {
			t.Errorf("read in pieces: %s", all.String())
		}
	})
}

// A signal that ends a read ends it; one that a program takes in passing does not, and
// the one after it is not announced.
func TestReadInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		b, _ := s.talk("b", 11, 1000)
		ask(t, b, `{"op":"acquire","paths":["f"]}`)
		a, p := s.talk("a", 10, 1000)
		ask(t, a, `{"op":"acquire","paths":["f"],"wait":"forever"}`)
		signalled := make(chan struct{})
		close(signalled)

		p.pending.Store(int64(proc.Interrupt))
		if done := reading(a, signalled, p); !isOver(done) || <-done != unix.EINTR {
			t.Error("a signal did not end the read")
		}
		p.pending.Store(int64(proc.NoReason))
		done := reading(a, signalled, p)
		if isOver(done) {
			t.Fatal("a signal without consequences ended the read")
		}
		p.pending.Store(int64(proc.Nothing))
		time.Sleep(time.Second)
		if isOver(done) {
			t.Fatal("no signal ended the read")
		}
		p.pending.Store(int64(proc.Interrupt))
		time.Sleep(time.Second)
		if !isOver(done) || <-done != unix.EINTR {
			t.Error("the second signal did not end the read")
		}
	})
}

// Requests are lines, however they are written.
func TestRequestsInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		a, p := s.talk("a", 10, 1000)
		for _, piece := range [][][]byte{{[]byte(`{"op":"li`)}, {[]byte(`st","id"`), []byte(`:"1"}`)}, {[]byte("\n\n  \n{\"op\":\"list\",\"id\":\"2\"}\n{")}} {
			if _, e := a.Write(p, piece); e != 0 {
				t.Fatal(e)
			}
		}
		if got, want := answers(a), `{"ok":true,"id":"1","locks":[]}`+"\n"+`{"ok":true,"id":"2","locks":[]}`+"\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if used := s.Book.Used(1000); used != 1 {
			t.Errorf("%d bytes are charged for the beginning of a request", used)
		}
		ask(t, a, "")
		if got := answers(a); !strings.Contains(got, `"invalid"`) {
			t.Errorf("half a request: %s", got)
		}
	})
}

// Nobody makes the daemon keep what it does not read, nor a line without an end.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		long, root := s.talk("root", 10, 0)
		if _, e := long.Write(root, [][]byte{bytes.Repeat([]byte("x"), control.MaxLine+1)}); e != 0 {
			t.Fatal(e)
		}
		if got := answers(long); !strings.Contains(got, "longer than a line may be") {
			t.Errorf("a line that is too long: %s", got)
		}
		ask(t, long, `{"op":"acquire","paths":["f"]}`, `{"op":"check","id":"next","paths":["f"]}`)
		if got := answers(long); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"id":"next"`) {
			t.Errorf("the end of that line, and the next: %s", got)
		}
		for _, size := range []int{control.MaxLine / 2, control.MaxLine/2 - 1, 3 * control.MaxLine} {
			piece := bytes.Repeat([]byte("x"), size)
			if _, e := long.Write(root, [][]byte{piece}); e != 0 {
				t.Fatal(e)
			}
			ask(t, long, string(piece)+"x", `{"op":"check","id":"next","paths":["f"]}`)
			got := answers(long)
			tooLong := strings.Contains(got, "longer than a line may be")
			if strings.Count(got, "\n") != 2 || !strings.Contains(got, `"id":"next"`) || tooLong != (size >= control.MaxLine/2) {
				t.Errorf("a line of twice %d bytes: %s", size, got)
			}
		}
		if used := s.Book.Used(0); used != 0 {
			t.Errorf("root is charged for %d bytes", used)
		}
		a, p := s.talk("a", 11, 1000)
		request := []byte(`{"op":"check","paths":["` + strings.Repeat("y", 200) + `"]}` + "\n")
		var e unix.Errno
		writes := 0
		for ; e == 0 && writes < 1<<12; writes++ {
			_, e = a.Write(p, [][]byte{request})
		}
		if used := s.Book.Used(1000); e != unix.ENOBUFS || used > 64<<10+1<<12 {
			t.Errorf("after %d requests: %v, with %d bytes of replies", writes, e, used)
		}
		// One write of many requests is taken, and what does not fit is dropped.
		for answers(a) != "" {
		}
		many := bytes.Repeat([]byte(`{"op":"check","paths":["y"],"names":["n","m","o","p"]}`+"\n"), 1<<10)
		if _, e := a.Write(p, [][]byte{many}); e != 0 {
			t.Fatal(e)
		}
		var all strings.Builder
		for piece := answers(a); piece != ""; piece = answers(a) {
			all.WriteString(piece)
		}
		if n := strings.Count(all.String(), "a request was dropped"); n == 0 {
			t.Error("no request was dropped")
		}
		// So are locks.
		var refused int
		for range 1 << 7 {
			ask(t, a, `{"op":"acquire","paths":["`+strings.Repeat("z", 200)+`"],"mode":"shared"}`)
			refused += strings.Count(answers(a), "as one user may have")
		}
		if refused == 0 || s.Claims.Count() > 1<<6 {
			t.Errorf("%d requests refused, %d locks held", refused, s.Claims.Count())
		}
	})
}

// A descriptor that was given away has requests of nobody else.
func TestOpeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		a, p := s.talk("a", 10, 1000)
		if a.Opener() != p || !a.IsOpeners(1000, 1000) || a.IsOpeners(0, 1000) || a.IsOpeners(1000, 0) {
			t.Error("whose conversation it is")
		}
	})
}

// A lease is at most the policy's, but for root; it is never shorter than its heartbeats
// allow.
func TestLeases(t *testing.T) {
	s := newStage()
	for _, c := range []struct {
		uid                 uint32
		asked, policy, want time.Duration
	}{
		{1000, time.Minute, 0, time.Minute},
		{1000, time.Minute, time.Second, time.Second},
		{1000, time.Second, time.Minute, time.Second},
		{1000, 0, time.Second, time.Second},
		{1000, time.Nanosecond, time.Second, shortestTTL},
		{1000, 0, 0, 0},
		{0, time.Minute, time.Second, time.Minute},
		{0, 0, time.Second, 0},
		{0, -1, time.Second, 0},
	} {
		q := &query{c: &process{uid: c.uid}, s: s.Server}
		if got := q.ttl(c.asked, c.policy); got != c.want {
			t.Errorf("user %d asks for %v, the policy says %v: %v, want %v", c.uid, c.asked, c.policy, got, c.want)
		}
	}
}

// A conversation may end while a transaction begins in it, which nobody would decide
// about.
func TestTransactionOfAClosedConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		b, _ := s.talk("b", 11, 1000)
		ask(t, b, `{"op":"acquire","names":["n"]}`)
		a, _ := s.talk("a", 10, 1000)
		ask(t, a, `{"op":"acquire","names":["n"],"txn":true,"wait":"forever"}`)
		s.onBegin = func() {
			delete(s.talks, "a")
			a.Close()
		}
		ask(t, b, `{"op":"release","all":true}`)
		synctest.Wait()
		if len(s.txns) != 0 || len(s.Table.Snapshot().Held) != 0 {
			t.Errorf("%d transactions and %d locks are left", len(s.txns), len(s.Table.Snapshot().Held))
		}
	})
}

// One request is for so much, and no more.
func TestTargetBounds(t *testing.T) {
	s := newStage()
	name := strings.Repeat("n", 200)
	for _, c := range []struct {
		request control.Request
		ok      bool
	}{
		{control.Request{Paths: make([]string, maxTargets)}, false}, // the root
		{control.Request{Trees: make([]string, maxTargets)}, true},
		{control.Request{Trees: make([]string, maxTargets), Names: []string{"n"}}, false},
		{control.Request{Paths: slices.Repeat([]string{name}, maxTargets)}, true},
		{control.Request{Paths: slices.Repeat([]string{name + "/" + name}, maxTargets)}, false},
		{control.Request{Paths: []string{strings.Repeat("n", unix.NAME_MAX)}}, true},
		{control.Request{Paths: []string{strings.Repeat("n", unix.NAME_MAX+1)}}, false},
		{control.Request{Paths: []string{strings.Repeat("n/", unix.PathMax/2-1)}}, true},
		{control.Request{Paths: []string{strings.Repeat("n/", unix.PathMax/2)}}, false},
	} {
		if _, err := s.targetOf(&c.request); (err == nil) != c.ok {
			t.Errorf("%d paths, %d trees, %d names: %v", len(c.request.Paths), len(c.request.Trees), len(c.request.Names), err)
		}
	}
}

// Many conversations take and give back locks at once: nothing is left, and nobody
// waits for ever.
func TestManyConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		defer s.leave(t)
		const workers, rounds = 8, 50
		held := make(chan struct{}, 1) // one of them holds f
		done := make(chan string, workers)
		for i := range workers {
			s.talk(string(rune('a'+i)), int32(10+i), 1000)
		}
		for _, cv := range s.talks {
			p := cv.Opener().(*process)
			go func() {
				buf := make([]byte, 4096)
				for range rounds {
					_, _ = cv.Write(p, [][]byte{[]byte(`{"op":"acquire","paths":["f"],"wait":"forever"}` + "\n")})
					n, e := cv.Read(nil, p.TID(), false, buf)
					if e != 0 || !bytes.Contains(buf[:n], []byte(`"ok":true`)) {
						done <- string(buf[:n])
						return
					}
					select {
					case held <- struct{}{}:
					default:
						done <- "two hold it"
						return
					}
					<-held
					_, _ = cv.Write(p, [][]byte{[]byte(`{"op":"release","all":true}` + "\n")})
					if n, _ := cv.Read(nil, p.TID(), false, buf); !bytes.Contains(buf[:n], []byte(`"released":1`)) {
						done <- string(buf[:n])
						return
					}
				}
				done <- ""
			}()
		}
		for range workers {
			if problem := <-done; problem != "" {
				t.Error(problem)
			}
		}
		if n := len(s.Table.Snapshot().Held) + len(s.Table.Snapshot().Waiting); n != 0 {
			t.Errorf("%d locks are left", n)
		}
	})
}

// Whoever joins a claim is known as long as it lives.
func TestNoteForgetsTheDead(t *testing.T) {
	s := newStage()
	cl := &Claim{of: s.Claims}
	one := s.start("one", 10, 1000, nil)
	two := s.start("two", 11, 1000, nil)
	s.Claims.Note(cl, one.owner)
	s.Claims.Note(cl, one.owner)
	delete(s.procs, "one")
	s.Claims.Note(cl, two.owner)
	if by := s.Claims.JoinedBy(cl); len(by) != 1 || by[0] != two.owner {
		t.Errorf("joined by %v", by)
	}
	if s.Claims.ByID("e-c1") != nil || s.Claims.ByID("x-c1") != nil || s.Claims.ByID("e-cx") != nil {
		t.Error("a claim is found that is none")
	}
	if s.Claims.Stolen([]lockmgr.Key{"f"}) != nil {
		t.Error("nothing was stolen")
	}
}
