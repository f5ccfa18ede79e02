package locksdir

import (
	"io"
	"iter"
	"slices"
	"sync"
	"syscall"
	"time"

	"latchfs/fs/report"
)

// historyLog is what was found out about history.jsonl: how long it is, and if it is
// short, what it holds.
type historyLog struct {
	key   string // who sees it
	gen   uint64
	size  int64
	text  []byte // nil if that would be more than maxHistoryText
	taken time.Time
	cost  time.Duration
}

// How what was found out about history.jsonl serves although the history has moved on:
// for a few times the time that it took, but not longer than this.
const (
	historyGrace  = 5
	maxHistoryAge = 2 * time.Second
	maxHistories  = 4 // viewers of whom it is kept
	// cheapHistory is up to how many bytes it is rendered anew whatever the last time has
	// cost, which on a busy machine says nothing.
	cheapHistory = 64 << 10
)

const (
	// maxHistoryText is how long a history.jsonl may be that is rendered once and kept.
	// A longer one is rendered while it is read.
	maxHistoryText = 1 << 20
	historyTail    = 64 << 10 // bytes of what was rendered last that are kept then
	// historyCost is about what a historyStream keeps: its tail, the versions that were
	// read ahead, and what was found out about directories.
	historyCost = 1 << 20
)

// historyText renders history.jsonl.
func (t *Tree) historyText(v report.Viewer) *historyLog {
	key := v.Credentials()
	t.historyMu.Lock()
	defer t.historyMu.Unlock()
	gen, now := t.src.HistoryGeneration(), t.src.Now()
	for _, l := range t.histories {
		// To all but the privileged directories count as well, which change unseen.
		if l.key == key && (l.gen == gen && v.Privileged || l.size > cheapHistory && now.Sub(l.taken) < min(historyGrace*l.cost, maxHistoryAge)) {
			return l
		}
	}
	l := &historyLog{key: key, gen: gen, taken: now}
	var line []byte
	for k := range t.src.History(v) {
		line = k.appendJSON(line[:0])
		if l.size += int64(len(line)); l.size <= maxHistoryText {
			l.text = append(l.text, line...)
		} else {
			l.text = nil
		}
	}
	l.cost = t.src.Now().Sub(now)
	t.histories = slices.DeleteFunc(t.histories, func(o *historyLog) bool { return o.key == key })
	if len(t.histories) >= maxHistories {
		t.histories = t.histories[1:]
	}
	t.histories = append(t.histories, l)
	return l
}

// content is the history.jsonl that was found to be so.
func (l *historyLog) content(t *Tree, v report.Viewer) Content {
	if l.size <= maxHistoryText {
		return newText(l.text)
	}
	return &historyStream{versions: func() iter.Seq[Version] { return t.src.History(v) }, size: l.size}
}

// historyStream is a long history.jsonl, rendered as it is read, as a file of /proc is:
// who reads on gets whole lines, each version once, and what is said of one is so when
// its line is rendered. Who goes back further than the tail gets it rendered anew.
type historyStream struct {
	versions func() iter.Seq[Version]
	size     int64 // when it was opened

	mu   sync.Mutex // guards what follows
	next func() (Version, bool)
	stop func()
	done bool   // the last line is rendered
	out  int64  // how much is rendered
	tail []byte // the end of it
}

// Size implements Content.
func (s *historyStream) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.out
	}
	return max(s.size, s.out)
}

// ReadAt implements io.ReaderAt.
func (s *historyStream) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, syscall.EINVAL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil || off < s.out-int64(len(s.tail)) {
		s.endLocked()
		s.next, s.stop = iter.Pull(s.versions())
	}
	for !s.done && s.out < off+int64(len(p)) {
		s.lineLocked(off)
	}
	if off >= s.out {
		return 0, io.EOF
	}
	return shortRead(copy(p, s.tail[off-(s.out-int64(len(s.tail))):]), len(p))
}

// lineLocked renders another line. Nothing from an offset on is dropped.
func (s *historyStream) lineLocked(off int64) {
	k, more := s.next()
	if !more {
		s.done = true
		return
	}
	was := len(s.tail)
	s.tail = k.appendJSON(s.tail)
	s.out += int64(len(s.tail) - was)
	unused := min(int64(len(s.tail)-historyTail), off-(s.out-int64(len(s.tail))))
	if unused >= historyTail {
		s.tail = append(s.tail[:0], s.tail[unused:]...)
	}
}

// endLocked ends the rendering.
func (s *historyStream) endLocked() {
	if s.stop != nil {
		s.stop()
	}
	s.next, s.stop, s.tail, s.out, s.done = nil, nil, nil, 0, false
}

// Close implements Content.
func (s *historyStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
	return nil
}

func (s *historyStream) kept() int64 { return historyCost }
