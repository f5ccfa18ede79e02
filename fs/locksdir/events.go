package locksdir

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"latchfs/fs/report"
)

const eventsFile = "events.jsonl"

// What a viewer's rendering of the audit trail takes at most.
const (
	eventBlock   = 64 << 10 // bytes of the trail between two marks, and read at once
	eventTail    = 64 << 10 // bytes of what was rendered last that are kept
	maxEventLine = 4 << 20  // a longer line is shown to nobody but the privileged
	// maxEventReaders bounds how often one user may have the file open.
	maxEventReaders = 64
)

// eventView is the audit trail as one viewer may see it. It is rendered as far as it
// is asked for. What was decided of a line holds as long as the view lives, so that
// what was read at an offset once is never anything else; how it is rendered follows
// from that decision alone.
type eventView struct {
	log   EventLog
	v     report.Viewer
	look  func() report.Sight
	clock func() time.Time

	mu       sync.Mutex   // guards what follows
	sight    report.Sight // by which lines are decided now
	stale    bool         // earlier ones were decided by another
	src, out int64        // how far it is decided, in the trail and as rendered
	marks    []eventMark
	verdicts []verdict // of the lines from the beginning on
	tail     []byte    // the end of what was rendered
	cost     time.Duration
}

// eventMark is a place from which the view can be rendered again.
type eventMark struct {
	src, out int64
	line     int
}

func (t *Tree) newEventView(v report.Viewer, sight report.Sight) *eventView {
	return &eventView{log: t.src.Events(), v: v, look: func() report.Sight { return t.src.Sight(v) }, clock: t.src.Now, sight: sight}
}

// Size implements Content: all that can be read now.
func (e *eventView) Size() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.extendLocked(-1) // what cannot be read now does not count
	return e.out
}

// Close implements Content.
func (e *eventView) Close() error { return nil }

// ReadAt implements io.ReaderAt.
func (e *eventView) ReadAt(p []byte, off int64) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if err := e.extendLocked(off + int64(len(p))); err != nil && off >= e.out {
		return 0, err
	}
	if off >= e.out {
		return 0, io.EOF
	}
	if from := e.out - int64(len(e.tail)); off >= from {
		return shortRead(copy(p, e.tail[off-from:]), len(p))
	}
	return e.againLocked(p, off)
}

func shortRead(n, want int) (int, error) {
	if n < want {
		return n, io.EOF
	}
	return n, nil
}

// extendLocked decides lines until that much is rendered, -1 for everything there is.
func (e *eventView) extendLocked(until int64) error {
	if until >= 0 && e.out >= until || e.src >= e.log.Size() {
		return nil
	}
	began := e.clock()
	if !e.sight.Stands() {
		e.sight, e.stale = e.look(), true
	}
	defer func() { e.cost += e.clock().Sub(began) }()
	return e.lines(e.src, func(line []byte, next int64) bool {
		if n := len(e.marks); n == 0 || e.src-e.marks[n-1].src >= eventBlock {
			e.marks = append(e.marks, eventMark{e.src, e.out, len(e.verdicts)})
		}
		d, text := judge(line, e.v, e.sight)
		e.verdicts = append(e.verdicts, d)
		e.src, e.out = next, e.out+int64(len(text))
		e.tail = append(e.tail, text...)
		if len(e.tail) > 2*eventTail {
			e.tail = append(e.tail[:0], e.tail[len(e.tail)-eventTail:]...)
		}
		return until < 0 || e.out < until
	})
}

// againLocked renders what was rendered before.
func (e *eventView) againLocked(p []byte, off int64) (int, error) {
	i, found := slices.BinarySearchFunc(e.marks, off, func(m eventMark, off int64) int {
		return int(min(max(m.out-off, -1), 1))
	})
	if !found {
		i--
	}
	// Several marks may be at one place of the rendering, where nothing was shown.
	at := e.marks[i]
	n, end := 0, e.src
	err := e.lines(at.src, func(line []byte, next int64) bool {
		text := e.verdicts[at.line].render(line)
		at.line++
		if skip := off - at.out; skip < int64(len(text)) {
			n += copy(p[n:], text[max(skip, 0):])
			off = max(off, at.out+int64(len(text)))
		}
		at.out += int64(len(text))
		return n < len(p) && next < end
	})
	if err != nil && n == 0 {
		return 0, err
	}
	return shortRead(n, len(p))
}

// lines calls fn with each whole line of the trail from src on, without its end, and
// where the next one begins, as long as it returns true.
func (e *eventView) lines(src int64, fn func(line []byte, next int64) bool) error {
	block := make([]byte, eventBlock)
	var rest []byte
	long := false
	for at := src; ; {
		n, err := e.log.ReadAt(block, at)
		at += int64(n)
		part := block[:n]
		for {
			i := bytes.IndexByte(part, '\n')
			if i < 0 {
				break
			}
			line := part[:i]
			if len(rest) > 0 {
				line = append(rest, line...)
			}
			if long {
				line = nil
			}
			part = part[i+1:]
			if !fn(line, at-int64(len(part))) {
				return nil
			}
			rest, long = rest[:0], false
		}
		if rest = append(rest, part...); len(rest) > maxEventLine {
			rest, long = rest[:0], true
		}
		switch {
		case err == io.EOF || err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// eventLog is a view that was made a moment ago.
type eventLog struct {
	key  string
	view *eventView
	made time.Time
}

// eventsFor is the audit trail for a viewer. A view that was dear to render serves all
// with the same credentials for a while, as history.jsonl does.
func (t *Tree) eventsFor(v report.Viewer) Content {
	sight := t.src.Sight(v)
	if sight == nil {
		return growing{t.src.Events()}
	}
	key, now := v.Credentials(), t.src.Now()
	t.eventsMu.Lock()
	defer t.eventsMu.Unlock()
	t.eventLogs = slices.DeleteFunc(t.eventLogs, func(l eventLog) bool {
		age := now.Sub(l.made)
		return age < 0 || age >= min(historyGrace*l.view.spent(), maxHistoryAge)
	})
	for _, l := range t.eventLogs {
		if l.key == key && l.view.stands() {
			return l.view
		}
	}
	view := t.newEventView(v, sight)
	if len(t.eventLogs) >= maxHistories {
		t.eventLogs = t.eventLogs[1:]
	}
	t.eventLogs = append(t.eventLogs, eventLog{key, view, now})
	return view
}

// stands reports whether a new view would show the same of what is rendered already.
func (e *eventView) stands() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.stale && e.sight.Stands()
}

// spent is what the view has cost so far.
func (e *eventView) spent() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	// One that is not rendered yet serves an Open after its Stat.
	return max(e.cost, time.Millisecond)
}

// openEvents opens the audit trail, which takes memory as long as it is open.
func (t *Tree) openEvents(v report.Viewer) (Content, error) {
	t.eventsMu.Lock()
	if !v.Privileged && t.eventReaders[v.UID] >= maxEventReaders {
		t.eventsMu.Unlock()
		return nil, syscall.EMFILE
	}
	if t.eventReaders == nil {
		t.eventReaders = map[uint32]int{}
	}
	t.eventReaders[v.UID]++
	t.eventsMu.Unlock()
	return &openEvents{Content: t.eventsFor(v), t: t, uid: v.UID}, nil
}

// openEvents is one open of the audit trail.
type openEvents struct {
	Content
	t    *Tree
	uid  uint32
	once sync.Once
}

// kept is about what a view keeps: its tail, and what its look has found out.
func (o *openEvents) kept() int64 { return 4 * eventTail }

// Close implements Content.
func (o *openEvents) Close() error {
	o.once.Do(func() {
		o.t.eventsMu.Lock()
		defer o.t.eventsMu.Unlock()
		if o.t.eventReaders[o.uid]--; o.t.eventReaders[o.uid] == 0 {
			delete(o.t.eventReaders, o.uid)
		}
	})
	return o.Content.Close()
}

// StatOpen describes the file at path, which Grows and its opener has open as c.
func (t *Tree) StatOpen(path string, c Content) Entry {
	return Entry{Name: path, Mode: modeFile, Size: c.Size(), Mtime: t.lastEvent(t.src.Events().Size())}
}

// Grows reports whether the file at path grows while it is open. What it holds is then
// dear to find out, and StatOpen spares that.
func Grows(path string) bool { return path == eventsFile }
