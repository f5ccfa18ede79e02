package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// Name is the name of the part of the trail that is written to.
const Name = "events.jsonl"

const (
	oldName = "events.jsonl.1"
	// keptName holds what is kept of the trail longer than its two newest parts.
	keptName = "events.jsonl.2"

	newName     = "events.new"     // a part that is being made
	leavingName = "events.leaving" // the part whose lines enter the kept one: see settle
	// damagedName holds the lines that Repair took out.
	damagedName = "corrupt-events.jsonl"

	defaultMaxBytes = 16 << 20
)

// Names returns the names of the trail's parts, the newest first.
func Names() []string { return []string{Name, oldName, keptName} }

// Known reports whether name is one that this package gives to a file in the state
// directory.
func Known(name string) bool {
	switch name {
	case Name, oldName, keptName, damagedName:
		return true
	}
	return Unfinished(name)
}

// Unfinished reports whether name is that of a file which only a rotation or a repair
// that was cut short leaves. The next Open deals with it.
func Unfinished(name string) bool { return name == newName || name == leavingName }

// Trail is an open audit trail. All methods may be called concurrently. One process at a
// time may have a state directory's trail open; the caller sees to that.
//
// Positions are counted from the beginning of the oldest part found at Open and never
// shift: a rotation moves start up.
type Trail struct {
	dir *os.File
	max int64

	fault func(step string) error // called before each step of a rotation; nil but in tests

	mu      sync.RWMutex // guards what follows
	cur     *os.File
	size    int64    // bytes in cur
	start   int64    // position of cur's first byte
	old     *os.File // nil if there is none
	oldSize int64
	kept    *os.File // what is kept of what came before old; nil if there is nothing
	// keptSize is its length, keptTimes how often it has changed.
	keptSize  int64
	keptTimes int

	lost     int // events that could not be written since the last that was
	lostFrom time.Time
	lostFor  error // why, of the first of them
}

// EventsLost is the event that stands for those that could not be written, as on a full
// disk: the next one that can is preceded by it. Its details are their "count", since when
// ("since") and why ("reason").
const EventsLost = "events_lost"

// Open opens the trail in the state directory dir, making its file if there is none, and
// cuts an unfinished last line off. A part is rotated when it would grow past maxBytes; 0
// stands for 16 MiB. dir stays the caller's and must remain open as long as the trail.
func Open(dir *os.File, maxBytes int64) (*Trail, error) {
	if maxBytes <= 0 {
		maxBytes = defaultMaxBytes
	}
	t := &Trail{dir: dir, max: maxBytes}
	if err := t.open(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Trail) open() (err error) {
	if err := settle(t.dir); err != nil {
		return err
	}
	if t.old, err = openPart(t.dir, oldName); t.old != nil {
		var st os.FileInfo
		if st, err = t.old.Stat(); err == nil {
			t.oldSize = st.Size()
		}
	}
	if err != nil {
		return err
	}
	if t.kept, err = openPart(t.dir, keptName); t.kept != nil {
		t.keptSize, err = wholeLinesOf(t.kept)
	}
	if err != nil {
		return err
	}
	t.start = t.keptSize + t.oldSize
	if t.cur, err = statedir.File(t.dir, Name, unix.O_RDWR|unix.O_CREAT); err != nil {
		return err
	}
	t.size, err = cutLine(t.cur)
	return err
}

// openPart opens a part for reading; nil stands for one that is not there.
func openPart(dir *os.File, name string) (*os.File, error) {
	f, err := statedir.File(dir, name, unix.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// lines are buffers for lines that are being written.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// Append adds the line of e to the trail, with the present time if it has none. It is not
// synced. Of an event whose line would be too long, long texts are cut and lists left
// out. On an error the trail is as it was, and it is told with the next event: see EventsLost.
func (t *Trail) Append(e Event) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	room := lines.Get().(*[]byte)
	defer lines.Put(room)
	line, err := e.appendLine((*room)[:0])
	if err != nil {
		return err
	}
	if cap(line) <= maxLine {
		*room = line
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err = t.tellLostLocked(); err == nil {
		err = t.addLocked(line)
	}
	if err != nil {
		if t.lost == 0 {
			t.lostFrom, t.lostFor = e.Time, err
		}
		t.lost++
	}
	return err
}

// tellLostLocked writes what has become of the events that are lost, if there are any.
func (t *Trail) tellLostLocked() error {
	if t.lost == 0 {
		return nil
	}
	e := Event{Time: time.Now(), Event: EventsLost, Detail: map[string]any{
		"count": t.lost, "since": t.lostFrom.UTC().Format(time.RFC3339Nano), "reason": t.lostFor.Error(),
	}}
	line, err := e.appendLine(nil)
	if err == nil {
		err = t.addLocked(line)
	}
	if err == nil {
		t.lost, t.lostFor = 0, nil
	}
	return err
}

// addLocked adds a line.
func (t *Trail) addLocked(line []byte) error {
	if t.size > 0 && t.size+int64(len(line)) > t.max {
		if err := t.rotateLocked(); err != nil {
			return fmt.Errorf("rotation of %s: %w", Name, err)
		}
	}
	if _, err := t.cur.WriteAt(line, t.size); err != nil {
		return errors.Join(err, t.cur.Truncate(t.size))
	}
	t.size += int64(len(line))
	return nil
}

// rotateLocked begins a new part. On an error the trail has its lines all the same, each
// once, and the next Append tries again.
func (t *Trail) rotateLocked() error {
	if t.old != nil {
		if err := t.keepLocked(); err != nil {
			return err
		}
	}
	if err := t.step("pass on", func() error { return rename(t.dir, Name, oldName) }); err != nil {
		return err
	}
	var next *os.File
	err := t.step("begin", func() (err error) {
		next, err = statedir.File(t.dir, Name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
		return err
	})
	if err != nil {
		return errors.Join(err, rename(t.dir, oldName, Name))
	}
	t.old, t.oldSize = t.cur, t.size
	t.start += t.size
	t.cur, t.size = next, 0
	return nil
}

// step does a step of a rotation.
func (t *Trail) step(what string, do func() error) error {
	if t.fault != nil {
		if err := t.fault(what); err != nil {
			return err
		}
	}
	return do()
}

func rename(dir *os.File, from, to string) error {
	fd := int(dir.Fd())
	if err := unix.Renameat(fd, from, fd, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Close closes the files.
func (t *Trail) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	for _, f := range []*os.File{t.kept, t.old, t.cur} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
