package appends

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestLinesGoAtOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "one\n")
		s.want("one\n")
		if r := s.last(); r != (record{ann, "one\n", Written}) {
			t.Errorf("%+v", r)
		}
		s.write(bob, "two\nthree", "\nfour")
		s.want("one\ntwo\nthree\n")
		if r := s.last(); r != (record{bob, "two\nthree\n", Written}) {
			t.Errorf("several lines of one write are %+v", r)
		}
		s.write(ann, "\n")
		s.want("one\ntwo\nthree\nfour\n")
		if r := s.last(); r != (record{ann, "four\n", Late}) {
			t.Errorf("a line in two pieces is %+v: the kernel knows of the last one alone", r)
		}
	})
}

// What a writer gives to the queue is its own again when the write has returned.
func TestBytesAreCopied(t *testing.T) {
	onStage(t, func(s *stage) {
		b := []byte("ab")
		if _, e := s.q.Write(ann, [][]byte{b}); e != 0 {
			t.Fatal(e)
		}
		b[0], b[1] = 'x', 'y'
		s.write(ann, "c\n")
		s.want("abc\n")
	})
}

func TestLongLineGoesInPieces(t *testing.T) {
	onStage(t, func(s *stage) {
		line := strings.Repeat("x", MaxLine)
		s.write(ann, line)
		s.want("")
		s.write(ann, "y")
		s.want(line + "y")
		s.write(ann, "z\n")
		s.want(line + "yz\n")
	})
}

// What the account of a user does not allow to be held back goes out, or is refused.
func TestAccountIsFull(t *testing.T) {
	onStage(t, func(s *stage) {
		s.book.Charge(user, limit)
		s.write(ann, "half")
		s.want("half")
		s.take()
		if n, e := s.tryWrite(ann, " a line"); n != 0 || e != unix.ENOMEM {
			t.Errorf("with the lock taken: %d, errno %v", n, e)
		}
		s.release()
		s.write(ann, "\n")
		s.want("half\n")
		s.book.Give(user, limit)
	})
}

// Who holds bytes back is charged for them. That the charge ends each test sees.
func TestHeldBytesAreCharged(t *testing.T) {
	onStage(t, func(s *stage) {
		for range 2 {
			s.write(ann, strings.Repeat("x", 500))
		}
		if used := s.book.Used(user); used < 1000 || used > 2000 {
			t.Errorf("%d bytes are charged for 1000", used)
		}
	})
}

// Only the beginning of a line is held back, whatever its write holds before it.
func TestManyLinesInOneWrite(t *testing.T) {
	onStage(t, func(s *stage) {
		many := strings.Repeat("0123456\n", MaxLine/8)
		s.write(ann, many+"rest")
		s.want(many)
		s.write(ann, "\n")
		s.want(many + "rest\n")
	})
}

func TestLockIsWaitedFor(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\n")
		s.write(bob, "two\nth")
		time.Sleep(time.Hour)
		s.want("")
		s.write(ann, "ree\nfo")
		s.release()
		s.want("one\ntwo\nthree\n")
		if r := s.last(); r != (record{ann, "one\ntwo\nthree\n", Late}) {
			t.Errorf("the last record is %+v", r)
		}
	})
}

// An unfinished line does not become due because of the lines before it.
func TestRestWaitsBehindLines(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\ntw")
		s.release()
		s.want("one\n")
		s.write(ann, "o\n")
		s.want("one\ntwo\n")
	})
}

// While something is appended nothing overtakes it.
func TestNothingOvertakes(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\n")
		slow := make(chan struct{})
		s.set(func() { s.slow = slow })
		s.release()
		synctest.Wait() // "one" is being appended
		second := make(chan struct{})
		go func() {
			defer close(second)
			s.write(ann, "two\n")
		}()
		s.set(func() { s.slow = nil })
		close(slow)
		<-second
		s.want("one\ntwo\n")
	})
}

func TestTooMuchWaits(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		full := strings.Repeat("x", MaxPending-2) + "\n"
		s.write(ann, full)
		if n, e := s.tryWrite(ann, "y\n"); n != 0 || e != unix.EBUSY {
			t.Errorf("%d, errno %v", n, e)
		}
		s.write(ann, "z")
		s.release()
		s.want(full)
		s.write(ann, "\n")
		s.want(full + "z\n")
	})
}

// The bytes of a write that fails are still the program's, and what was held back before
// them stays.
func TestWriteFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "on")
		s.set(func() { s.refuses = unix.ENOSPC })
		if n, e := s.tryWrite(ann, "x\n"); n != 0 || e != unix.ENOSPC {
			t.Errorf("%d, errno %v", n, e)
		}
		s.set(func() { s.refuses = 0 })
		s.write(ann, "e\n")
		s.want("one\n")
		s.wantNothingKept()
	})
}

// A line that was not accepted is gone with its beginning.
func TestLineIsNotAccepted(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "{")
		s.set(func() { s.refuses = unix.EBADMSG })
		if n, e := s.tryWrite(ann, "x\n"); n != 0 || e != unix.EBADMSG {
			t.Errorf("%d, errno %v", n, e)
		}
		s.set(func() { s.refuses = 0 })
		s.write(ann, "{}\n")
		s.want("{}\n")
		s.wantNothingKept() // the judge has done that
	})
}

// What fails when nobody waits for it is kept, and the next write hears of it.
func TestLateAppendFails(t *testing.T) {
	for _, c := range []struct {
		e    unix.Errno
		kept bool // by the queue
	}{{unix.ENOSPC, true}, {unix.EBADMSG, false}} {
		onStage(t, func(s *stage) {
			s.write(ann, "half")
			s.set(func() { s.refuses = c.e })
			s.q.Flush(Late)
			s.set(func() { s.refuses = 0 })
			if c.kept {
				s.wantKept("half", "ENOSPC: appending failed: "+unix.ENOSPC.Error())
			} else {
				s.wantNothingKept()
			}
			if n, e := s.tryWrite(ann, " a line\n"); n != 0 || e != c.e {
				t.Errorf("the next write: %d, errno %v", n, e)
			}
			s.want("")
		})
	}
}

func TestFlush(t *testing.T) {
	onStage(t, func(s *stage) {
		s.q.Flush(Late)
		s.write(ann, "half")
		s.q.Flush(Late)
		s.want("half")
		if r := s.last(); r.on != Late {
			t.Error("the kernel does not know that the file has grown")
		}
		s.write(ann, " of")
		s.q.Flush(Asked)
		s.want("half of")
		if r := s.last(); r.on != Asked {
			t.Error("the kernel is told twice that the file has grown")
		}
		s.take()
		s.write(ann, " a line")
		s.q.Flush(Late)
		s.want("half of")
		s.release()
		s.want("half of a line")
	})
}

func TestIsFree(t *testing.T) {
	onStage(t, func(s *stage) {
		if !s.q.IsFree() {
			t.Error("a new queue is not free")
		}
		s.set(func() { s.slow = make(chan struct{}) })
		go func() { _, _ = s.tryWrite(ann, "one\n") }()
		synctest.Wait()
		if s.q.IsFree() {
			t.Error("a queue is free while something is appended")
		}
		close(s.slow)
		synctest.Wait()
		if !s.q.IsFree() {
			t.Error("the queue is not free when it has been")
		}
	})
}

// Many threads write through one descriptor, while the lock comes and goes, and somebody
// looks at the file: each line is whole, and those of one thread are in their order.
func TestManyWriters(t *testing.T) {
	const writers, each = 8, 200
	s := newStage(t, false)
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range each {
				s.write1(Writer{Thread: uint32(w + 1), UID: user}, fmt.Sprintf("writer %d line %d\n", w, i))
				if r.IntN(8) == 0 {
					s.q.Flush(Late)
				}
			}
		})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				s.take()
				s.release()
			}
		}
	}()
	done.Wait()
	close(stop)
	<-stopped
	if e := s.q.Drain(); e != 0 {
		t.Error(e)
	}
	next := make([]int, writers)
	lines := slices.Collect(strings.Lines(string(s.file)))
	for _, line := range lines {
		var w, i int
		if n, err := fmt.Sscanf(line, "writer %d line %d\n", &w, &i); n != 2 || err != nil || w < 0 || w >= writers || i != next[w] {
			t.Fatalf("%q: %v", line, err)
		}
		next[w]++
	}
	if len(lines) != writers*each {
		t.Errorf("%d lines, want %d", len(lines), writers*each)
	}
	if used := s.book.Used(user); used != 0 {
		t.Errorf("%d bytes are charged for nothing", used)
	}
}

// write1 writes out of virtual time.
func (s *stage) write1(w Writer, text string) {
	if n, e := s.tryWrite(w, text); n != len(text) || e != 0 {
		s.t.Errorf("%q: %d, errno %v", text, n, e)
	}
}
