package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// undoCase is one file before an undo of what agent-7 did since 09:10.
type undoCase struct {
	states []recorded // the path is filled in
	now    string     // content of the file; "" if there is none
	want   string     // content after undo
	plan   string     // what the plan says, "" if nothing
	forced string     // content after undo --force where that is another

	appends []string // events of the trail, with %q for the path
	grown   bool     // the records do not know how big the file is
}

const agent = "python3/agent-7"

var undoCases = map[string]undoCase{
	"changed": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "old", plan: "restore   changed: version 1 of 2026-03-01 09:05:00 by vim[101]",
	},
	"changed-twice": {
		states: []recorded{
			{version: 1, event: "commit", by: "vim", minute: 5, content: "old"},
			{version: 2, event: "commit", by: agent, minute: 9, content: "earlier"},
			{version: 3, event: "commit", by: agent, minute: 11, content: "new"}, {version: 4, event: "commit", by: agent, minute: 12},
		},
		now: "newer", want: "earlier", plan: "restore   changed-twice: version 2 of",
	},
	"found-first": {
		states: []recorded{{version: 1, event: "found", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "old", plan: "restore   found-first: version 1",
	},
	"created": {
		states: []recorded{{version: 1, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "", plan: "delete    created: it was not there before",
	},
	"created-again": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 1, content: "x"}, {version: 2, event: "delete", by: "rm", minute: 2}, {version: 3, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "", plan: "delete    created-again: it was not there before",
	},
	"deleted": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "delete", by: agent, minute: 11}},
		now:    "", want: "old", plan: "restore   deleted: version 1",
	},
	"come-and-gone": {
		states: []recorded{{version: 1, event: "commit", by: agent, minute: 11, content: "x"}, {version: 2, event: "delete", by: agent, minute: 12}},
	},
	"not-theirs": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: "python3", minute: 11}},
		now:    "theirs", want: "theirs",
	},
	"too-early": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 9}},
		now:    "kept", want: "kept",
	},
	"others-before": {
		states: []recorded{
			{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: "vim", minute: 11, content: "theirs"},
			{version: 3, event: "commit", by: agent, minute: 12},
		},
		now: "new", want: "theirs", plan: "restore   others-before: version 2",
	},
	"appended-after": { // by the same one
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 11}},
		now:    "new+", want: "old", plan: "restore   appended-after: version 1", appends: []string{appendedBy("sh", 10), appendedBy(agent, 12)},
	},
	"others-appended": {
		now: "log", want: "log", appends: []string{appendedBy("sh", 12), appendedBy(agent, 9)},
	},
	"taken-back-already": {
		states: []recorded{
			{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 11, content: "new"},
			{version: 3, event: "commit", by: "latchfs-undo", minute: 12},
		},
		now: "old", want: "old",
	},
}

var undoRefusals = map[string]undoCase{
	"built-on": {
		states: []recorded{
			{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 11, content: "new"},
			{version: 3, event: "commit", by: "vim", minute: 12},
		},
		now: "built", want: "built", forced: "old",
		plan: "refused   built-on: version 3, 2026-03-01 09:12:00 by vim[103], was made later (--force takes that back, too)",
	},
	"changed-around": {
		states: []recorded{{version: 1, event: "commit", by: agent, minute: 11, content: "new"}, {version: 2, event: "found", by: agent, minute: 12}},
		now:    "built", want: "built", plan: "refused   changed-around: version 2, 2026-03-01 09:12:00, was made later (--force takes that back, too)",
	},
	"not-kept": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5}, {version: 2, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "new", forced: "new", plan: "refused   not-kept: version 1 of not-kept is not kept any more",
	},
	"forgotten": {
		states: []recorded{{version: 7, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "new", forced: "new", plan: "refused   forgotten: version 6, before the change, is not known any more",
	},
	"built-on-by-appending": {
		states: []recorded{{version: 1, event: "commit", by: agent, minute: 11}},
		now:    "new+", want: "new+", appends: []string{appendedBy("sh/agent-8", 12)},
		plan: "refused   built-on-by-appending: sh[9] as agent-8 appended to it later, 2026-03-01 09:12:00 (--force takes that back, too)",
	},
	"appended-before": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 2, event: "commit", by: agent, minute: 12}},
		now:    "new", want: "new", forced: "old", appends: []string{appendedBy(agent, 11)},
		plan: "refused   appended-before: what was appended, 2026-03-01 09:11:00, before version 2, is not taken back",
	},
	"appended-only": {
		states: []recorded{{version: 1, event: "commit", by: "vim", minute: 5}},
		now:    "log", want: "log", forced: "log", appends: []string{appendedBy(agent, 11)},
		plan: "refused   appended-only: what was appended makes no version, and is not taken back",
	},
	"growing": {
		states: []recorded{{version: 1, event: "commit", by: agent, minute: 11, content: "x"}},
		now:    "grown", want: "grown", grown: true, plan: "refused   growing: it is not as version 1, the last one, left it",
	},
	"gap": {
		states: []recorded{{version: 2, event: "commit", by: "vim", minute: 5, content: "old"}, {version: 4, event: "commit", by: agent, minute: 11}},
		now:    "new", want: "new", forced: "new", plan: "refused   gap: version 3, before the change, is not known any more",
	},
}

// arrange makes the files of some cases.
func (d *fakeDaemon) arrange(cases ...map[string]undoCase) {
	d.t.Helper()
	var list []recorded
	events := ""
	for _, set := range cases {
		for name, c := range set {
			for i, r := range c.states {
				r.path = name
				if i == len(c.states)-1 && !c.grown {
					r.extra += fmt.Sprintf(`,"bytes":%d`, len(c.now))
				}
				list = append(list, r)
			}
			for _, line := range c.appends {
				events += fmt.Sprintf(line, name) + "\n"
			}
			if c.now != "" {
				d.write(name, c.now)
			}
		}
	}
	d.remember(list...)
	d.write(".locks/events.jsonl", events)
}

// appendedBy is an event of appending to a file.
func appendedBy(who string, minute int) string {
	program, actor, _ := strings.Cut(who, "/")
	return fmt.Sprintf(`{"event":"commit","operation":"append","path":%%q,"timestamp":"2026-03-01T09:%02d:00Z","program":%q,"actor":%q,"pid":9}`,
		minute, program, actor)
}

// holds tells what a file holds; "" if there is none.
func (d *fakeDaemon) holds(name string) string {
	d.t.Helper()
	if _, err := os.Lstat(d.file(name)); os.IsNotExist(err) {
		return ""
	}
	return d.read(name)
}

func (d *fakeDaemon) undo(args ...string) outcome {
	return d.run(append([]string{"undo", "--actor", "agent-7", "--since", "2026-03-01T09:10:00Z"}, args...)...)
}

func TestUndo(t *testing.T) {
	d := fakeFiles(t)
	d.arrange(undoCases)
	planned := d.undo("--dry-run")
	if planned.code != 0 || planned.stderr != leftByScripts {
		t.Error(planned)
	}
	lines := 0
	for name, c := range undoCases {
		if c.plan != "" {
			lines++
		}
		if c.plan != "" != strings.Contains(planned.stdout, " "+name+": ") || !strings.Contains(planned.stdout, c.plan) {
			t.Errorf("%s: %q is not in the plan\n%s", name, c.plan, planned.stdout)
		}
		if d.holds(name) != c.now {
			t.Errorf("%s: a dry run has made it %q", name, d.holds(name))
		}
	}
	if n := strings.Count(planned.stdout, "\n"); n != lines {
		t.Errorf("%d lines of a plan, want %d:\n%s", n, lines, planned.stdout)
	}
	done := d.undo()
	want := strings.NewReplacer("restore   ", "restored  ", "delete    ", "deleted   ").Replace(planned.stdout)
	if done != (outcome{stdout: want, stderr: leftByScripts}) {
		t.Errorf("%v\nwant\n%s", done, want)
	}
	for name, c := range undoCases {
		if d.holds(name) != c.want {
			t.Errorf("%s is %q, want %q", name, d.holds(name), c.want)
		}
	}
	const nothing = "latchfs undo: warning: nothing is to be taken back: agent-7 has changed nothing there since then, or it is taken back already\n"
	if again := d.undo(); again != (outcome{stderr: leftByScripts + nothing}) {
		t.Errorf("again: %v", again)
	}
}

func TestUndoRefused(t *testing.T) {
	unchanged := func(d *fakeDaemon, sets ...map[string]undoCase) {
		t.Helper()
		for _, set := range sets {
			for name, c := range set {
				if d.holds(name) != c.now {
					t.Errorf("%s is %q, want %q", name, d.holds(name), c.now)
				}
			}
		}
	}
	d := fakeFiles(t)
	d.arrange(undoCases, undoRefusals)
	got := d.undo()
	if got.code != 1 || !strings.Contains(got.stderr, "9 files refused: nothing was changed") || strings.Contains(got.stdout, "restored") {
		t.Error(got)
	}
	for name, c := range undoRefusals {
		if !strings.Contains(got.stdout, c.plan+"\n") {
			t.Errorf("%s: %q is not in\n%s", name, c.plan, got.stdout)
		}
	}
	unchanged(d, undoCases, undoRefusals)
	if got := d.undo("--dry-run"); got.code != 1 || got.stderr != leftByScripts {
		t.Error(got)
	}
	// What is not kept cannot be had by force, and stops the rest as before.
	if got := d.undo("--force"); got.code != 1 || !strings.Contains(got.stderr, "4 files refused") {
		t.Error(got)
	}
	unchanged(d, undoCases, undoRefusals)
	if got := d.undo("--keep-going"); got.code != 1 || got.stderr != leftByScripts || !strings.Contains(got.stdout, "restored  changed:") {
		t.Error(got)
	}
	unchanged(d, undoRefusals)
	for name, c := range undoCases {
		if d.holds(name) != c.want {
			t.Errorf("%s is %q, want %q", name, d.holds(name), c.want)
		}
	}
}

func TestUndoForced(t *testing.T) {
	d := fakeFiles(t)
	d.arrange(undoRefusals)
	if got := d.undo("--force", "--keep-going"); got.code != 1 {
		t.Error(got)
	}
	for name, c := range undoRefusals {
		if d.holds(name) != c.forced {
			t.Errorf("%s is %q, want %q", name, d.holds(name), c.forced)
		}
	}
}

func TestUndoBelow(t *testing.T) {
	d := fakeFiles(t)
	d.arrange(undoCases, undoRefusals)
	if got := d.undo("created", "deleted"); got.code != 0 || strings.Count(got.stdout, "\n") != 2 || d.holds("created") != "" || d.holds("changed") != "new" {
		t.Error(got)
	}
	if got := d.undo("--json", "--dry-run", "changed", "not-kept"); got.code != 1 {
		t.Error(got)
	} else {
		for line := range strings.Lines(got.stdout) {
			var o map[string]any
			if err := json.Unmarshal([]byte(line), &o); err != nil || o["path"] == nil || o["done"] != false || o["action"] == "refuse" != (o["reason"] != nil) {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	for _, args := range [][]string{{"undo"}, {"undo", "--actor", "a"}, {"undo", "--since", "2h"}, {"undo", "--since", "2h", "--actor", ""}} {
		if got := d.run(args...); got.code != 2 {
			t.Errorf("%q: %v", args, got)
		}
	}
}

// A file that changes while the plan is being carried out is left alone.
func TestUndoNotices(t *testing.T) {
	d := fakeFiles(t)
	d.arrange(undoCases)
	f := &undoFlags{}
	if err := f.actor.Set("agent-7"); err != nil {
		t.Fatal(err)
	}
	if err := f.since.Set("2026-03-01T09:10:00Z"); err != nil {
		t.Fatal(err)
	}
	v := &view{root: d.root, locks: d.file(".locks")}
	all, err := v.histories(nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := f.plan(v, all, []string{"created", "changed"})
	if err != nil || len(plan) != 2 {
		t.Fatal(plan, err)
	}
	for _, u := range plan {
		d.write(u.path, "just now")
		if err := u.carryOut(nil, v); err == nil || !strings.Contains(err.Error(), "was changed just now") || d.holds(u.path) != "just now" {
			t.Errorf("%s: %v, %q", u.path, err, d.holds(u.path))
		}
	}
}

// A file that was renamed is its own content still: nothing of it was kept.
func TestUndoRename(t *testing.T) {
	byAgent := func(r recorded) recorded { r.by, r.minute = agent, 11; return r }
	for name, test := range map[string]struct {
		states    []recorded
		now, want map[string]string
	}{
		"away": {
			[]recorded{
				{path: "f", version: 1, event: "commit", by: "vim", extra: `,"bytes":4`},
				byAgent(recorded{path: "f", version: 2, event: "rename-away", extra: `,"to":"g"`}),
				byAgent(recorded{path: "g", version: 1, event: "commit", extra: `,"from":"f","bytes":4`}),
			},
			map[string]string{"g": "text"}, map[string]string{"f": "text", "g": ""},
		},
		"over another, and on": {
			[]recorded{
				{path: "f", version: 1, event: "commit", by: "vim", extra: `,"bytes":4`},
				{path: "h", version: 1, event: "commit", by: "vim", content: "other"},
				byAgent(recorded{path: "f", version: 2, event: "rename-away", extra: `,"to":"g"`}),
				byAgent(recorded{path: "g", version: 1, event: "commit", extra: `,"from":"f","bytes":4`}),
				byAgent(recorded{path: "g", version: 2, event: "rename-away", extra: `,"to":"h"`}),
				byAgent(recorded{path: "h", version: 2, event: "commit", extra: `,"from":"g","bytes":4`}),
			},
			map[string]string{"h": "text"}, map[string]string{"f": "text", "h": "other"},
		},
		"and changed": {
			[]recorded{
				{path: "f", version: 1, event: "commit", by: "vim", extra: `,"bytes":4`},
				byAgent(recorded{path: "f", version: 2, event: "rename-away", extra: `,"to":"g"`}),
				byAgent(recorded{path: "g", version: 1, event: "commit", extra: `,"from":"f","bytes":4`}),
				byAgent(recorded{path: "g", version: 2, event: "commit", extra: `,"bytes":4`}),
			},
			map[string]string{"g": "next"}, map[string]string{"f": "", "g": "next"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := fakeFiles(t)
			d.remember(test.states...)
			for file, content := range test.now {
				d.write(file, content)
			}
			got := d.undo()
			for file, want := range test.want {
				if d.holds(file) != want {
					t.Errorf("%s is %q, want %q\n%v", file, d.holds(file), want, got)
				}
			}
		})
	}
}

// After a file has got its own content back, what it had is among the kept.
func TestUndoRenameBack(t *testing.T) {
	d := fakeFiles(t)
	v := &view{root: d.root, locks: d.file(".locks")}
	d.write("g", "text")
	s := &fileVersion{named: named{Path: "f"}, Version: 1, Bytes: 4, Event: "commit"}
	u := &undoing{Action: undoRestore, path: "f", target: s, source: d.file("g"), sourceWas: stampAt(d.file("g"))}
	d.write("g", "mine")
	if err := os.Chtimes("g", s.Time, s.Time); err != nil {
		t.Fatal(err)
	}
	if err := u.carryOut(nil, v); err == nil || d.holds("f") != "" {
		t.Errorf("%v, f is %q", err, d.holds("f"))
	}
	d.write(".locks/history/f/1", "text")
	if err := u.carryOut(nil, v); err != nil || d.holds("f") != "text" {
		t.Errorf("%v, f is %q", err, d.holds("f"))
	}
}

// leftByScripts is what undo says of a script that has no label.
const leftByScripts = "latchfs undo: warning: 1 file changed since then by scripts without a label, and left: not-theirs (by python3[102])\n"

// Of an actor of whom nothing is known that is said.
func TestUndoUnknownActor(t *testing.T) {
	d := fakeFiles(t)
	d.arrange(undoCases)
	got := d.run("undo", "--actor", "agnet-7", "--since", "2026-03-01 09:10:00")
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "nothing is known that agnet-7 has done here") {
		t.Error(got)
	}
}
