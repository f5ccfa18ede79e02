package claimfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// fields are those of a JSON object; err is the first thing that is wrong with them.
type fields struct {
	values map[string]json.RawMessage
	err    error
}

// readFields reads one JSON object. What is in its values is looked at later.
func readFields(data []byte) (*fields, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, ErrEmpty
	case !utf8.Valid(data):
		return nil, errors.New("it is not UTF-8")
	case !json.Valid(data):
		return nil, errors.New("it is not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	f := &fields{values: map[string]json.RawMessage{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, errors.New("it is not JSON")
		}
		name, _ := key.(string)
		if _, twice := f.values[name]; twice {
			return nil, fmt.Errorf("%s is there twice", clean(name))
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, errors.New("it is not JSON")
		}
		f.values[name] = v
	}
	return f, nil
}

// fail notes what is wrong, if nothing was wrong before.
func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// has tells whether a field is there and not null.
func (f *fields) has(name string) bool {
	v, ok := f.values[name]
	return ok && string(v) != "null"
}

// optionalText is a text, or "" if the field is missing.
func (f *fields) optionalText(name string) string {
	if !f.has(name) {
		return ""
	}
	var s string
	if err := json.Unmarshal(f.values[name], &s); err != nil {
		f.fail("%s is not a text", name)
		return ""
	}
	if len(s) > maxText {
		f.fail("%s is longer than 1 KiB", name)
		return ""
	}
	return s
}

// text is a text that has to be there.
func (f *fields) text(name string) string {
	s := f.optionalText(name)
	if strings.TrimSpace(s) == "" {
		f.fail("%s is missing", name)
	}
	return s
}

// pid is the id of a process, which has to be there.
func (f *fields) pid(name string) int32 {
	if !f.has(name) {
		f.fail("%s is missing", name)
		return 0
	}
	var n int32
	if err := json.Unmarshal(f.values[name], &n); err != nil || n <= 0 {
		f.fail("%s is not the id of a process", name)
		return 0
	}
	return n
}

// seconds is a duration in whole seconds, or 0 if the field is missing.
func (f *fields) seconds(name string) time.Duration {
	if !f.has(name) {
		return 0
	}
	var n int64
	if err := json.Unmarshal(f.values[name], &n); err != nil || n < 1 || n > int64(maxTTL/time.Second) {
		f.fail("%s is not a number from 1 to %d", name, int64(maxTTL/time.Second))
		return 0
	}
	return time.Duration(n) * time.Second
}

// time is a time with its zone (RFC 3339), which has to be there.
func (f *fields) time(name string) time.Time {
	t, err := time.Parse(time.RFC3339, f.text(name))
	if err != nil || t.IsZero() {
		f.fail("%s is not a time with a zone", name)
		return time.Time{}
	}
	return t.UTC()
}

// utc is a time in UTC, which has to be there (T3).
func (f *fields) utc(name string) time.Time {
	t := f.time(name)
	if s := f.optionalText(name); f.err == nil && !strings.HasSuffix(s, "Z") && !strings.HasSuffix(s, "+00:00") {
		f.fail("%s is not in UTC", name)
	}
	return t
}

// looseTime is a time as scripts write it: with a zone; without one, which says nothing;
// or the number of seconds since 1970. It may be missing, which says nothing either.
func (f *fields) looseTime(name string) time.Time {
	if !f.has(name) {
		return time.Time{}
	}
	var n float64
	if err := json.Unmarshal(f.values[name], &n); err == nil {
		if n <= 0 || n > math.MaxUint32 {
			f.fail("%s is not a time", name)
			return time.Time{}
		}
		whole, part := math.Modf(n)
		return time.Unix(int64(whole), int64(part*1e9)).UTC()
	}
	s := f.text(name)
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if _, err := time.Parse(layout, s); err == nil {
			return time.Time{}
		}
	}
	f.fail("%s is not a time", name)
	return time.Time{}
}
