package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	newEvents     = "events.new"                   // a log without its damaged lines, being made
	damagedEvents = corruptPrefix + "events.jsonl" // lines that a repair took out
)

// eventLines says what the lines of one file of the event log are.
type eventLines struct {
	good    []span
	damaged []span
	tail    span   // behind the last line that is whole
	tokens  uint64 // the highest fencing token
}

// span is the bytes [start,end) of a file.
type span struct{ start, end int64 }

// readEvents examines a file of the event log.
func readEvents(f *os.File) (*eventLines, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end, err := wholeLines(f, st.Size())
	if err != nil {
		return nil, err
	}
	e := &eventLines{tail: span{end, st.Size()}}
	r := bufio.NewReader(io.NewSectionReader(f, 0, end))
	for at := int64(0); at < end; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		s := span{at, at + int64(len(line))}
		at = s.end
		if token, ok := parseEvent(line); ok {
			e.good, e.tokens = append(e.good, s), max(e.tokens, token)
		} else {
			e.damaged = append(e.damaged, s)
		}
	}
	return e, nil
}

// parseEvent reports whether line is one JSON object, and which token it names.
func parseEvent(line []byte) (token uint64, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return 0, false
	}
	var e struct {
		Token uint64 `json:"token"`
	}
	err := json.Unmarshal(line, &e)
	var other *json.UnmarshalTypeError // an object with some other kind of token
	return e.Token, err == nil || errors.As(err, &other)
}

// checkEvents examines the event log.
func (c *Checked) checkEvents(dir *os.File) error {
	for _, name := range []string{eventsName, eventsOldName, eventsKeptName} {
		f, err := openat(dir, name, unix.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		e, err := readEvents(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.tokens = max(c.tokens, e.tokens)
		if torn := e.tail.end - e.tail.start; torn > 0 {
			c.find(Info, FindTornTail, name, e.tail.start, fmt.Sprintf("%d bytes of an unfinished line", torn),
				"a crash came while it was written, or before it was on disk; the event is lost")
		}
		if n := len(e.damaged); n > 0 {
			c.find(Problem, FindDamagedEvent, name, e.damaged[0].start, fmt.Sprintf("%d lines are no JSON objects, this being the first", n),
				"the audit trail has lost these events; programs that read it may stop here")
		}
	}
	return nil
}

// RepairEvents takes damaged lines out of the event log and appends them to a file
// aside, whose name it returns; nothing is changed where nothing is damaged. An
// unfinished end is left to Open, which cuts it off. Nobody may have the journal
// open.
func RepairEvents(dir *os.File) (aside string, err error) {
	for _, name := range []string{eventsName, eventsOldName, eventsKeptName} {
		moved, err := repairEvents(dir, name)
		if err != nil {
			return aside, fmt.Errorf("%s: %w", name, err)
		}
		if moved {
			aside = damagedEvents
		}
	}
	return aside, nil
}

func repairEvents(dir *os.File, name string) (moved bool, err error) {
	f, err := openat(dir, name, unix.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	e, err := readEvents(f)
	if err != nil {
		return false, err
	}
	bad := e.damaged
	if e.tail.start < e.tail.end && (name != eventsName || len(bad) > 0) {
		bad = append(bad, e.tail) // what is no longer written to Open leaves alone
	}
	if len(bad) == 0 {
		return false, nil
	}
	// First what goes is safe, then it goes: after a crash it is there twice.
	err = copySpans(dir, damagedEvents, unix.O_APPEND, f, bad)
	if err == nil {
		err = copySpans(dir, newEvents, unix.O_TRUNC, f, e.good)
	}
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), newEvents, int(dir.Fd()), name)
	}
	return err == nil, errors.Join(err, syncDir(dir))
}

// copySpans writes parts of from to a file of dir, and syncs it.
func copySpans(dir *os.File, name string, how int, from *os.File, spans []span) error {
	to, err := openat(dir, name, unix.O_WRONLY|unix.O_CREAT|how)
	if err != nil {
		return err
	}
	defer to.Close()
	w := bufio.NewWriter(to)
	for _, s := range spans {
		if _, err := io.Copy(w, io.NewSectionReader(from, s.start, s.end-s.start)); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), to.Sync())
}
