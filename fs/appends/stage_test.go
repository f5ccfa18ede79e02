package appends

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
)

const (
	user = 1000 // whose account the stage's queue charges
	// limit is what a user may have in the stage's book, for which a queue's slices, which
	// are larger than what is in them, are small.
	limit = 64 << 20
	wait  = 10 * time.Second // the stage's patience
)

var (
	errTaken = errors.New("somebody else has the lock")
	errGone  = errors.New("nobody wants to wait any longer")

	ann = Writer{Thread: 7, UID: user, GID: 1}
	bob = Writer{Thread: 8, UID: user, GID: 1}
)

// A stage is a queue with the end of a file in memory, in virtual time.
type stage struct {
	t    *testing.T
	q    *Queue
	book *account.Book

	mu        sync.Mutex // guards what follows
	file      []byte
	records   []record
	kept      []string
	reasons   []string
	lines     []bool        // what was told of lines that are held back
	free      chan struct{} // closed when nobody else has the lock
	held      bool          // the queue has it
	anyhow    bool          // no lock is needed any more
	refuses   unix.Errno    // what is appended
	judges    bool
	works     bool            // whoever writes
	inSession map[uint32]bool // threads of which what they append goes to a session of their own
	asked     []uint32
	open      int           // how much of the file is a line that is not finished
	cuts      int           // how often that was taken out
	slow      chan struct{} // an append lasts until it is closed; nil: it does not last
	patience  time.Duration
}

// A record is one that was appended.
type record struct {
	by   Writer
	text string
	on   Occasion
}

func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, false)
		test(s)
		s.release()
		s.q.Flush(Late)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if used := s.book.Used(user); used != 0 {
			t.Errorf("the queue is empty, and the user is charged for %d bytes", used)
		}
		if s.held {
			t.Error("the lock was not given back")
		}
	})
}

func newStage(t *testing.T, synced bool) *stage {
	s := &stage{t: t, patience: wait, free: make(chan struct{})}
	close(s.free)
	s.book = account.New(account.Limits{User: limit, Share: limit, Total: limit}, func(uint32) bool { return false })
	s.q = New(Config{End: s, Book: s.book, UID: user, Synced: synced})
	return s
}

// take gives the lock to another owner, who has it until release.
func (s *stage) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = make(chan struct{})
}

func (s *stage) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isFreeLocked() {
		close(s.free)
	}
}

func (s *stage) isFreeLocked() bool {
	select {
	case <-s.free:
		return true
	default:
		return false
	}
}

// set changes what the end of the file does from now on.
func (s *stage) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *stage) unlock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		s.t.Error("the lock was given back twice")
	}
	s.held = false
}

func (s *stage) TryLock(Writer) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isFreeLocked() || s.held {
		return nil, errTaken
	}
	s.held = true
	return s.unlock, nil
}

func (s *stage) Lock(_ Writer, giveUp <-chan struct{}) (func(), error) {
	for {
		s.mu.Lock()
		free := s.free
		s.mu.Unlock()
		select {
		case <-free:
		case <-giveUp:
			return nil, errGone
		}
		s.mu.Lock()
		if s.isFreeLocked() {
			s.held = true
			s.mu.Unlock()
			return s.unlock, nil
		}
		s.mu.Unlock()
	}
}

func (s *stage) Errno(error) unix.Errno { return unix.ETIMEDOUT }

func (s *stage) Append(w Writer, b []byte, on Occasion) unix.Errno {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow != nil {
		<-slow
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held && !s.anyhow {
		s.t.Errorf("%q is appended without the lock", b)
	}
	if s.refuses != 0 {
		return s.refuses
	}
	s.file = append(s.file, b...)
	s.records = append(s.records, record{w, string(b), on})
	if s.open = len(s.file) - 1 - bytes.LastIndexByte(s.file, '\n'); len(b) == 0 {
		s.t.Error("nothing is appended")
	}
	return 0
}

func (s *stage) HasOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0
}

func (s *stage) CutOpen() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	if !s.held && !s.anyhow {
		s.t.Error("the file is cut without the lock")
	}
	at := len(s.file) - s.open
	part := bytes.Clone(s.file[at:])
	s.file, s.open = s.file[:at], 0
	return part
}

func (s *stage) Keep(b []byte, e unix.Errno, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.reasons = append(s.kept, string(b)), append(s.reasons, unix.ErrnoName(e)+": "+reason)
}

func (s *stage) HoldsLine(holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, holds)
}

func (s *stage) JudgesLines() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judges
}

func (s *stage) InOwnSession(w Writer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inSession[w.Thread]
}

func (s *stage) IsWorking(thread uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, thread)
	return s.works
}

func (s *stage) Patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patience
}

// write writes, which must succeed and take no time.
func (s *stage) write(w Writer, pieces ...string) {
	s.t.Helper()
	at, size := time.Now(), len(strings.Join(pieces, ""))
	if n, e := s.tryWrite(w, pieces...); e != 0 || n != size {
		s.t.Fatalf("a write of %d bytes: %d, errno %v", size, n, e)
	}
	if took := time.Since(at); took != 0 {
		s.t.Errorf("a write has waited for %v", took)
	}
}

func (s *stage) tryWrite(w Writer, pieces ...string) (int, unix.Errno) {
	var data [][]byte
	for _, p := range pieces {
		data = append(data, []byte(p))
	}
	return s.q.Write(w, data)
}

// want compares the file with what must be in it, when everybody has done what can be done
// now.
func (s *stage) want(text string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := string(s.file); got != text {
		s.t.Fatalf("the file has %d bytes, %.40q, want %d, %.40q", len(got), got, len(text), text)
	}
}

// wantKept compares what was put aside, and why.
func (s *stage) wantKept(text, reason string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) != 1 || s.kept[0] != text || !strings.Contains(s.reasons[0], reason) {
		s.t.Errorf("kept are %q because of %q, want %q because of %q", s.kept, s.reasons, text, reason)
	}
}

func (s *stage) wantNothingKept() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) != 0 {
		s.t.Errorf("kept are %q", s.kept)
	}
}

// last is the last record that was appended.
func (s *stage) last() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[len(s.records)-1]
}
