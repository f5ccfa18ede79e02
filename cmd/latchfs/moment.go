package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// momentFlag is a flag that takes a point in time.
type momentFlag struct {
	at time.Time
	// text is what was given.
	text string
}

// momentHelp says what a momentFlag takes.
const momentHelp = `a TIME is an age (90s, 2h30m, 3d), a moment (2026-03-01T09:00:00Z,
"2026-03-01 09:00", 2026-03-01) or a time of today (09:00), local unless it says
otherwise`

// String implements pflag.Value.
func (m *momentFlag) String() string { return m.text }

// Type is the name of the value in the help.
func (m *momentFlag) Type() string { return "TIME" }

// Set reads the flag's value.
func (m *momentFlag) Set(s string) error {
	at, err := parseMoment(s, time.Now())
	m.at, m.text = at, s
	return err
}

// includes tells whether a moment is in the range from since to until; what is not
// set does not limit it.
func includes(since, until momentFlag, t time.Time) bool {
	return (since.text == "" || !t.Before(since.at)) && (until.text == "" || !t.After(until.at))
}

var momentFormats = []string{
	time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly,
}

// parseMoment reads a time as people write it.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if d, err := parseAge(s); err == nil {
		return now.Add(-d), nil
	}
	for _, format := range momentFormats {
		if t, err := time.ParseInLocation(format, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, format := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(format, s); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s", strings.ReplaceAll(momentHelp, "\n", " "))
}

// parseAge reads a duration, in which days may come first.
func parseAge(s string) (time.Duration, error) {
	var days time.Duration
	if n, rest, ok := strings.Cut(s, "d"); ok {
		count, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, err
		}
		days = time.Duration(count) * 24 * time.Hour
		if rest == "" {
			return days, nil
		}
		s = rest
	}
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", s)
	}
	if err == nil && days+d < 0 {
		err = fmt.Errorf("%s is too long", s)
	}
	return days + d, err
}
