package appends

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// after lets so much time pass.
func (s *stage) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The rest of a line is waited for from its beginning, however many pieces come meanwhile.
func TestQuietWriter(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "a")
		s.after(lineDelay - 1)
		s.write(bob, "b")
		s.want("")
		s.after(1)
		s.want("ab")
		if !slices.Equal(s.asked, []uint32{bob.Thread}) {
			t.Errorf("threads %d are looked at, not the last writer", s.asked)
		}
	})
}

// A line that has come in time leaves no timer behind for the next one.
func TestNextLineHasItsOwnTime(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "a")
		s.after(lineDelay - 1)
		s.write(ann, "\n")
		s.write(ann, "b")
		s.after(lineDelay - 1)
		s.want("a\n")
		s.after(1)
		s.want("a\nb")
	})
}

// What goes to a session of the writer's own does not wait for the end of its line, nor does what
// others have begun.
func TestLineInOwnSession(t *testing.T) {
	onStage(t, func(s *stage) {
		s.set(func() { s.inSession = map[uint32]bool{ann.Thread: true} })
		s.write(ann, "one\ntw")
		s.want("one\ntw")
		s.write(ann, "o")
		s.want("one\ntwo")
		s.write(bob, " b")
		s.want("one\ntwo")
		s.write(ann, " a")
		s.want("one\ntwo b a")
		s.set(func() { s.inSession = nil })
		s.write(ann, "\nthr")
		s.want("one\ntwo b a\n")
	})
}

func TestWriterAtWork(t *testing.T) {
	onStage(t, func(s *stage) {
		s.set(func() { s.works = true })
		s.write(ann, "a")
		s.after(maxLineDelay - 1)
		s.want("")
		s.after(1)
		s.want("a") // that is enough
	})
	onStage(t, func(s *stage) {
		s.set(func() { s.works = true })
		s.write(ann, "a")
		s.after(lineDelay)
		s.set(func() { s.works = false })
		s.after(lineDelay/4 - 1)
		s.want("")
		s.after(1)
		s.want("a")
	})
}

// The timer may have run, and wait for its turn, when the line ends and another one begins.
func TestTimerOfAFormerLine(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "a")
		s.q.mu.Lock()
		begun := s.q.begun
		s.q.mu.Unlock()
		s.after(1)
		s.write(ann, "\n")
		s.set(func() { s.works = true })
		s.q.waited(begun) // nothing is held back
		s.set(func() { s.works = false })
		s.write(ann, "b")
		s.q.waited(begun) // and now what came after it
		s.want("a\n")
	})
}

// Half of a line that is judged is shown to nobody.
func TestJudgedLineWaitsForItsEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		s.set(func() { s.judges = true })
		s.write(ann, "{\"a\":")
		s.after(time.Hour)
		s.want("")
		s.write(ann, "1}\n")
		s.want("{\"a\":1}\n")
	})
}

// The end of the file is told once that a line begins to wait, and once that none does.
func TestHoldsLine(t *testing.T) {
	onStage(t, func(s *stage) {
		told := func(want ...bool) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(s.lines, want) {
				t.Errorf("it was told %v, want %v", s.lines, want)
			}
		}
		s.write(ann, "one\n")
		told()
		s.write(ann, "a", "b")
		s.write(ann, "c")
		told(true)
		s.write(ann, "\n", "d")
		told(true)
		s.q.Flush(Late)
		told(true, false)
		s.take()
		s.write(ann, "e\n")
		told(true, false) // that waits for the lock
		s.write(ann, "f")
		told(true, false, true)
		s.q.Flush(Late)
		told(true, false, true, false) // and now that does, too
	})
}

func TestHoldsOnlyLine(t *testing.T) {
	onStage(t, func(s *stage) {
		want := func(want bool, when string) {
			t.Helper()
			if got := s.q.HoldsOnlyLine(); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		want(false, "nothing is held back")
		s.write(ann, "a")
		want(true, "half a line is held back")
		s.take()
		s.write(ann, "\n", "b")
		want(false, "a line waits for the lock")
		s.release()
		s.want("a\n")
		want(true, "it has got it")
		s.take()
		s.q.Flush(Late)
		want(false, "half a line waits for the lock")
		s.q.TakeBack(ann)
		s.write(ann, "c")
		want(false, "who waits for the lock for what was taken back waits still")
		s.q.Flush(Late)
		s.q.Drain()
		s.release()
		s.q.mu.Lock()
		s.q.buf = append(s.q.buf, 'c') // which no write would do before it has told the error
		s.q.mu.Unlock()
		want(false, "there is an error to be told")
		_, _ = s.tryWrite(ann, "")
	})
}

// A program that looks at the file while its line is being appended finds the queue by what
// the end was told, and waits for its mutex: the end is not told before the line is there.
func TestLineIsHeldUntilItIsInTheFile(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "a")
		slow := make(chan struct{})
		s.set(func() { s.slow = slow })
		go s.q.Drain()
		synctest.Wait()
		s.mu.Lock()
		lines := slices.Clone(s.lines)
		s.mu.Unlock()
		if !slices.Equal(lines, []bool{true}) {
			t.Errorf("while the line is being appended the end was told %v", lines)
		}
		close(slow)
		s.want("a")
	})
}
