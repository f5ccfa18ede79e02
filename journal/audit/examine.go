package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Examined is what Examine has found out about a part of the trail.
type Examined struct {
	Name    string
	Token   uint64 // the highest fencing token that a line names, 0 if none does
	Damaged int    // how many lines are not JSON objects
	First   int64  // where the first of them begins, in bytes
	Torn    int64  // how many bytes at the end are not a whole line
	TornAt  int64  // where they begin, in bytes
}

// Examine examines the trail in the state directory dir, which nobody may have open, and
// changes nothing. It returns what it finds out about the parts that are there, the
// newest first. An error means that it could not look.
func Examine(dir *os.File) ([]Examined, error) {
	var parts []Examined
	for _, name := range Names() {
		f, err := openPart(dir, name)
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		lines, err := readPart(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		x := Examined{Name: name, Token: lines.token, Damaged: len(lines.damaged), Torn: lines.tail.end - lines.tail.start, TornAt: lines.tail.start}
		if x.Damaged > 0 {
			x.First = lines.damaged[0].start
		}
		parts = append(parts, x)
	}
	return parts, nil
}

// partLines says what the lines of one part of the trail are.
type partLines struct {
	good    []span
	damaged []span
	tail    span   // behind the last line that is whole
	token   uint64 // the highest fencing token
}

// span is the bytes [start,end) of a file.
type span struct{ start, end int64 }

// readPart examines a part.
func readPart(f *os.File) (*partLines, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end, err := wholeLines(f, st.Size())
	if err != nil {
		return nil, err
	}
	l := &partLines{tail: span{end, st.Size()}}
	r := bufio.NewReader(io.NewSectionReader(f, 0, end))
	for at := int64(0); at < end; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		s := span{at, at + int64(len(line))}
		at = s.end
		if token, ok := parseLine(line); ok {
			l.good, l.token = append(l.good, s), max(l.token, token)
		} else {
			l.damaged = append(l.damaged, s)
		}
	}
	return l, nil
}

// parseLine reports whether line is one JSON object, and which token it names.
func parseLine(line []byte) (token uint64, ok bool) {
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
