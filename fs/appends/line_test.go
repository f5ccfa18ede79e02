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
		s.q.Flush()
		told(true, false)
		s.take()
		s.write(ann, "e\n")
		told(true, false) // that waits for the lock
		s.write(ann, "f")
		told(true, false, true)
		s.q.Flush()
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
		s.q.Flush()
		want(false, "half a line waits for the lock")
		s.q.TakeBack(ann)
		s.write(ann, "c")
		want(false, "who waits for the lock for what was taken back waits still")
		s.q.Flush()
		s.q.Drain()
		s.release()
		s.q.mu.Lock()
		s.q.buf = append(s.q.buf, 'c') // which no write would do before it has told the error
		s.q.mu.Unlock()
		want(false, "there is an error to be told")
		_, _ = s.tryWrite(ann, "")
	})
}

func TestTakeBack(t *testing.T) {
	for name, c := range map[string]struct {
		first  string // is written, and goes out
		then   string // is written after it
		locked bool   // somebody has the lock from then on
		by     Writer // who is said to have written last
		back   string
		file   string
	}{
		"what is held back":              {"", "one\ntw", false, ann, "tw", "one\n"},
		"nothing":                        {"", "one\n", false, ann, "", "one\n"},
		"what is in the file":            {"tw", "", false, ann, "tw", ""},
		"that with what is held back":    {"one\ntw", "o", false, ann, "two", "one\n"},
		"not somebody else's":            {"", "one\ntw", false, bob, "", "one\ntw"},
		"not somebody else's in a file":  {"tw", "", false, bob, "", "tw"},
		"no line that waits for a lock":  {"", "one\ntw", true, ann, "tw", "one\n"},
		"nor the line in the file of it": {"tw", "o\nth", true, ann, "th", "two\n"},
		"what is no text":                {"", "one\nt\x00", false, ann, "", "one\nt\x00"},
		"what is text behind such":       {"", "\x00\ntw", true, ann, "tw", "\x00\n"},
	} {
		onStage(t, func(s *stage) {
			s.write(ann, c.first)
			s.q.Flush()
			if c.locked {
				s.take()
			}
			s.write(ann, c.then)
			if back := string(s.q.TakeBack(c.by)); back != c.back {
				t.Errorf("%s: %q is taken back, want %q", name, back, c.back)
			}
			s.after(time.Second)
			s.release()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if string(s.file) != c.file {
				t.Errorf("%s: the file has %q, want %q", name, s.file, c.file)
			}
		})
	}
}

// A line that waits for the lock already is taken back, and what stands of it in the file
// stays.
func TestTakeBackOfWhatIsDue(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "hal")
		s.q.Flush()
		s.take()
		s.write(ann, "f\nse")
		s.q.Flush()
		if back := string(s.q.TakeBack(ann)); back != "se" || s.cuts != 0 {
			t.Errorf("%q is taken back, and the file was cut %d times", back, s.cuts)
		}
		s.write(ann, "third")
		s.q.Flush()
		if back := string(s.q.TakeBack(ann)); back != "third" || s.cuts != 0 {
			t.Errorf("%q is taken back, and the file was cut %d times", back, s.cuts)
		}
		s.release()
		s.want("half\n")
	})
}

// The bytes that are taken back are nobody else's.
func TestBytesTakenBackAreCopied(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\ntwo")
		back := s.q.TakeBack(ann)
		s.write(ann, "six")
		if string(back) != "two" {
			t.Errorf("%q", back)
		}
	})
}

// What is synced as it is written is not taken back, nor what is no text.
func TestMayDrop(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "": true, "a\x00": false} {
		if got := newStage(t, false).q.MayDrop([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
		if newStage(t, true).q.MayDrop([]byte(text)) {
			t.Errorf("%q is dropped that was to be synced", text)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		s.write(ann, "a")
		if back := s.q.TakeBack(ann); back != nil {
			t.Errorf("%q is taken back that was to be synced", back)
		}
		s.q.Flush()
		s.want("a")
	})
}

// A dying process waits for the lock of the file, but not for long.
func TestTakeBackWaitsForTheLock(t *testing.T) {
	for _, c := range []struct {
		locked, took time.Duration
		back, file   string
	}{
		{0, 0, "half", ""},
		{95 * time.Millisecond, 100 * time.Millisecond, "half", ""},
		{cutTries*cutPause - 1, cutTries * cutPause, "", "hal"},
		{(cutTries-1)*cutPause - 1, (cutTries - 1) * cutPause, "half", ""},
	} {
		onStage(t, func(s *stage) {
			s.write(ann, "hal")
			s.q.Flush()
			s.take()
			s.write(ann, "f")
			if c.locked == 0 {
				s.release()
			}
			time.AfterFunc(c.locked, s.release)
			at := time.Now()
			back := string(s.q.TakeBack(ann))
			if back != c.back && back != "f" || time.Since(at) != c.took {
				t.Errorf("%q is taken back after %v, want %q after %v", back, time.Since(at), c.back, c.took)
			}
			s.want(c.file)
		})
	}
}
