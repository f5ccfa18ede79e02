package appends

import (
	"testing"
	"testing/synctest"
	"time"
)

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
			s.q.Flush(Late)
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
		s.q.Flush(Late)
		s.take()
		s.write(ann, "f\nse")
		s.q.Flush(Late)
		at := time.Now()
		if back := string(s.q.TakeBack(ann)); back != "se" || s.cuts != 0 {
			t.Errorf("%q is taken back, and the file was cut %d times", back, s.cuts)
		}
		s.write(ann, "third")
		s.q.Flush(Late)
		if back := string(s.q.TakeBack(ann)); back != "third" || s.cuts != 0 {
			t.Errorf("%q is taken back, and the file was cut %d times", back, s.cuts)
		}
		if time.Since(at) != 0 {
			t.Errorf("that has taken %v", time.Since(at))
		}
		s.release()
		s.want("half\n")
	})
}

// Where nothing of a line is in the file nobody waits for the lock.
func TestTakeBackOfWhatIsNotInTheFile(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "one\n")
		s.take()
		s.write(ann, "tw")
		at := time.Now()
		if back := string(s.q.TakeBack(ann)); back != "tw" || time.Since(at) != 0 {
			t.Errorf("%q is taken back after %v", back, time.Since(at))
		}
		if used := s.book.Used(user); used != 0 || s.lines[len(s.lines)-1] {
			t.Errorf("nothing is held back, %d bytes are charged, and it was told %v", used, s.lines)
		}
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
		s.q.Flush(Late)
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
			s.q.Flush(Late)
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

// While a dying process waits for the lock nobody else is held up. What others write meanwhile
// goes behind what was whole.
func TestTakeBackHoldsNobodyUp(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "one\nhal")
		s.q.Flush(Late)
		s.take()
		s.write(ann, "f")
		back := make(chan string)
		go func() { back <- string(s.q.TakeBack(ann)) }()
		synctest.Wait()
		if !s.q.IsFree() {
			t.Fatal("the queue is held while the dying process waits")
		}
		s.write(bob, "two\nth")
		s.want("one\nhal")
		s.after(25 * time.Millisecond)
		s.release() // who waits for the lock of another has it now, and the dying process not yet
		s.want("one\ntwo\n")
		if text := <-back; text != "half" {
			t.Errorf("%q is taken back", text)
		}
		s.write(bob, "ree\n")
		s.want("one\ntwo\nthree\n")
		if s.cuts != 1 {
			t.Errorf("the file was cut %d times", s.cuts)
		}
	})
}

// A write that finds the lock free while a dying process pauses is visible at once.
func TestWriteBesideTakeBack(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "hal")
		s.q.Flush(Late)
		s.take()
		back := make(chan string)
		go func() { back <- string(s.q.TakeBack(ann)) }()
		synctest.Wait()
		s.release()
		s.write(bob, "two\n")
		if got := string(s.file); got != "two\n" {
			t.Errorf("the file has %q when the write has returned", got)
		}
		if text := <-back; text != "hal" {
			t.Errorf("%q is taken back", text)
		}
		s.want("two\n")
	})
}

// Of two processes that die at once each takes back what is its own.
func TestTwoTakeBack(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "hal")
		s.q.Flush(Late)
		s.take()
		back := make(chan string)
		go func() { back <- string(s.q.TakeBack(ann)) }()
		synctest.Wait()
		s.write(bob, "thi")
		if text := string(s.q.TakeBack(bob)); text != "thi" {
			t.Errorf("%q is taken back from bob", text)
		}
		s.release()
		if text := <-back; text != "hal" {
			t.Errorf("%q is taken back from ann", text)
		}
		s.want("")
	})
}

// A process that gives up leaves the line of another to that.
func TestTakeBackLeavesTheNextOne(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "hal")
		s.q.Flush(Late)
		s.take()
		first, second := make(chan string), make(chan string)
		go func() { first <- string(s.q.TakeBack(ann)) }()
		s.after(cutTries*cutPause - 1)
		s.release()
		s.write(bob, "thi")
		s.q.Flush(Late) // makes the cut for ann
		s.take()
		go func() { second <- string(s.q.TakeBack(bob)) }()
		if text := <-first; text != "hal" {
			t.Errorf("%q is taken back from ann", text)
		}
		s.release()
		if text := <-second; text != "thi" {
			t.Errorf("%q is taken back from bob", text)
		}
		s.want("")
	})
}

// A line that could not be taken out in time stays, whoever has the lock later.
func TestTakeBackGivesUp(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(ann, "hal")
		s.q.Flush(Late)
		s.take()
		if text := string(s.q.TakeBack(ann)); text != "" {
			t.Errorf("%q is taken back", text)
		}
		s.release()
		s.write(bob, "two\n")
		s.want("haltwo\n")
	})
}
