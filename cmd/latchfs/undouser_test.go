package main

import (
	"testing"
	"time"
)

// Whoever may not take a change back, for another user has made one since, is told of that
// one, whoever came last.
func TestUndoNamesTheOtherUsersChange(t *testing.T) {
	const me = 1000
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 9, minute, 0, 0, time.Local) }
	version := func(number int64, minute, uid int, program, actor string) *fileVersion {
		return &fileVersion{author: author{Actor: actor, Program: program, PID: 7, UID: &uid}, Version: number, Time: at(minute), Event: "commit"}
	}
	appended := func(minute, uid int, program string) *auditEvent {
		return &auditEvent{author: author{Program: program, PID: 8, UID: &uid}, Timestamp: at(minute), Event: "commit"}
	}
	mine := version(1, 11, me, "python3", "agent-7")
	for _, tt := range []struct {
		name     string
		states   []*fileVersion
		appended []*auditEvent
		want     string
	}{
		{
			"mine came last", []*fileVersion{mine, version(2, 12, 2, "vim", ""), version(3, 13, me, "cp", "")}, nil,
			"another user has changed it since, 2026-03-01 09:12:00 by vim[7]: only root takes that back",
		},
		{
			"two of them", []*fileVersion{mine, version(2, 12, 2, "vim", ""), version(3, 13, 3, "cp", "")}, nil,
			"another user has changed it since, 2026-03-01 09:12:00 by vim[7]: only root takes that back",
		},
		{
			"appended", []*fileVersion{mine, version(2, 12, me, "cp", "")}, []*auditEvent{appended(10, 2, "early"), appended(13, me, "tee"), appended(14, 2, "logger")},
			"another user has changed it since, 2026-03-01 09:14:00 by logger[8]: only root takes that back",
		},
		{
			"my own", []*fileVersion{mine, version(2, 12, me, "cp", "")}, []*auditEvent{appended(10, 2, "early")},
			"version 2, 2026-03-01 09:12:00 by cp[7], was made later (--force takes that back, too)",
		},
	} {
		f := &undoFlags{caller: me}
		if err := f.actor.Set("agent-7"); err != nil {
			t.Fatal(err)
		}
		f.since.at = at(10)
		if u := f.planFile(tt.states, tt.appended); u.Action != undoRefuse || u.Reason != tt.want {
			t.Errorf("%s: %s, %q, want %q", tt.name, u.Action, u.Reason, tt.want)
		}
	}
}
