package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is a line of history.jsonl, in short: what is not given is left out.
type recorded struct {
	path    string
	version int
	event   string
	by      string // "program", "program/actor" or ""
	minute  int    // of the hour
	content string // of what is kept; "" if nothing is
	extra   string // further fields
}

// remember fills the history of a mount.
func (d *fakeDaemon) remember(list ...recorded) {
	d.t.Helper()
	d.write(".locks/history/.dir", "")
	var lines strings.Builder
	for i, r := range list {
		program, actor, _ := strings.Cut(r.by, "/")
		fmt.Fprintf(&lines, `{"path":%q,"version":%d,"event":%q,"time":"2026-03-01T09:%02d:00Z","bytes":%d,"kept":%v,"current":%v`,
			r.path, r.version, r.event, r.minute, len(r.content), r.content != "", isLast(list, i))
		if r.by != "" {
			fmt.Fprintf(&lines, `,"program":%q,"actor":%q,"pid":%d,"uid":%d`, program, actor, 100+r.version, os.Getuid())
		}
		lines.WriteString(r.extra + "}\n")
		if r.content != "" {
			d.write(fmt.Sprintf(".locks/history/%s/%d", r.path, r.version), r.content)
		}
	}
	d.write(".locks/history.jsonl", lines.String())
}

// isLast tells whether a record is the last one of its path.
func isLast(list []recorded, i int) bool {
	for _, r := range list[i+1:] {
		if r.path == list[i].path {
			return false
		}
	}
	return true
}

// aHistory is of a file with versions of every kind, one that is gone, and one that
// is below a directory that is gone.
var aHistory = []recorded{
	{path: "a.json", version: 2, event: "found", minute: 1},
	{path: "a.json", version: 3, event: "commit", by: "vim", minute: 2, content: "three\n", extra: `,"mode":"0604"`},
	{path: "gone/b", version: 1, event: "commit", by: "sh/agent-7", minute: 3, content: "b\n"},
	{path: "a.json", version: 4, event: "delete", by: "rm", minute: 4},
	{path: "a.json", version: 5, event: "commit", by: "mv", minute: 5, content: "five\n", extra: `,"operation":"rename","from":"a.tmp"`},
	{path: "a.tmp", version: 9, event: "rename-away", by: "mv", minute: 5, extra: `,"to":"a.json"`},
	{path: "gone/b", version: 2, event: "delete", by: "rm", minute: 6},
	{path: "a.json", version: 6, event: "commit", by: "sh/agent-7", minute: 7, extra: `,"operation":"truncate"`},
}

func TestHistory(t *testing.T) {
	d := fakeFiles(t)
	d.remember(aHistory...)
	d.write("a.json", "six\n")
	want := `VERSION  TIME                 BYTES  KEPT     BY                 WHAT
2        2026-03-01 09:01:00  0      no       -                  already there when latchfs first saw it, or changed outside the mount
3        2026-03-01 09:02:00  6      yes      vim[103]           commit
4        2026-03-01 09:04:00  -      -        rm[104]            deleted
5        2026-03-01 09:05:00  5      yes      mv[105]            renamed from a.tmp
6        2026-03-01 09:07:00  0      current  sh[106] as agent-7  truncate
`
	got := d.run("history", "a.json")
	if squeezed(got.stdout) != squeezed(want) || got.code != 0 {
		t.Errorf("%v\nwant\n%s", got, want)
	}
	want = `FILE    VERSION  TIME                 BYTES  KEPT  BY                  WHAT
a.json  6        2026-03-01 09:07:00  0      3,5   sh[106] as agent-7  truncate
a.tmp   9        2026-03-01 09:05:00  -      -     mv[109]             renamed to a.json
gone/b  2        2026-03-01 09:06:00  -      1     rm[102]             deleted
`
	for _, args := range [][]string{{"history"}, {"history", "."}, {"history", d.root}, {"history", "--mount", d.root}} {
		if got := d.run(args...); squeezed(got.stdout) != squeezed(want) || got.code != 0 {
			t.Errorf("%q: %v\nwant\n%s", args, got, want)
		}
	}
}

// A name that was copied from a list, which has names from the mount's root on, is another file's
// in a directory below.
func TestHistoryOfAListedName(t *testing.T) {
	d := fakeFiles(t)
	d.remember(aHistory...)
	if err := os.Mkdir(filepath.Join(d.root, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(d.root, "sub"))
	want := "no version of sub/a.json is known, but of " + filepath.Join(d.root, "a.json") + "\n"
	for _, args := range [][]string{{"history", "a.json"}, {"diff", "a.json"}, {"restore", "a.json", "3"}} {
		if got := d.run(args...); got.code != 1 || !strings.HasSuffix(got.stderr, want) {
			t.Errorf("%q: %v, want %s", args, got, want)
		}
	}
	if got := d.run("history", "nothing"); got.code != 1 || !strings.HasSuffix(got.stderr, "no version of sub/nothing is known\n") {
		t.Errorf("%v", got)
	}
}

func squeezed(table string) string {
	lines := strings.Split(table, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

func TestHistorySelects(t *testing.T) {
	d := fakeFiles(t)
	if got := d.run("history"); got.code != 1 || !strings.Contains(got.stderr, "keeps no history") {
		t.Errorf("without one: %v", got)
	}
	d.remember(aHistory...)
	d.write("a.json", "six\n")
	mustMkdir(t, d.file("empty"))
	for args, want := range map[string]int{
		"--deleted":               3,
		"--deleted gone":          2,
		"--deleted gone/b":        3,
		"--deleted a.json":        0,
		"gone":                    2,
		"gone/b":                  3,
		"empty":                   0,
		"--json":                  8,
		"--json a.json":           5,
		"--json --deleted":        3,
		"--json gone/b --mount .": 2,
	} {
		got := d.run(append([]string{"history"}, strings.Fields(args)...)...)
		if n := strings.Count(got.stdout, "\n"); n != want || got.code != 0 {
			t.Errorf("%s: %d lines, want %d: %v", args, n, want, got)
		}
		for line := range strings.Lines(got.stdout) {
			if strings.Contains(args, "--json") && !json.Valid([]byte(line)) {
				t.Errorf("%s: %s", args, line)
			}
		}
	}
	if got := d.run("history", "nothing"); got.code != 1 || !strings.Contains(got.stderr, "no version of nothing is known") {
		t.Error(got)
	}
	if got := d.run("history", "gone/nothing"); got.code != 1 {
		t.Error(got)
	}
}

// Which versions are kept is said in short.
func TestKeptOf(t *testing.T) {
	var states []*fileVersion
	for n := range int64(12) {
		states = append(states, &fileVersion{Version: n, Event: "commit", Kept: n < 3 || n == 5 || n > 6})
	}
	states[7].Event = "delete"
	states[11].Current = true
	if got := keptOf(states); got != "0-2,5,8-10" {
		t.Error(got)
	}
	if got := keptOf(states[3:5]); got != "-" {
		t.Error(got)
	}
}

func TestRestore(t *testing.T) {
	d := fakeFiles(t)
	d.remember(aHistory...)
	d.write("a.json", "six\n")
	if got := d.run("restore", "a.json", "3"); got != (outcome{stdout: "a.json restored to version 3, 6 bytes\n"}) {
		t.Error(got)
	}
	if st, err := os.Stat("a.json"); err != nil || st.Mode() != 0o604 || d.read("a.json") != "three\n" {
		t.Errorf("restored %v, %v", st, err)
	}
	// A file that is gone, along with its directory.
	if got := d.run("restore", d.root+"/gone/b", "1"); got.code != 0 || d.read("gone/b") != "b\n" {
		t.Error(got)
	}
	for args, want := range map[string]outcome{
		"a.json 6":  {stderr: "warning: version 6 is the current one of a.json"},
		"a.json 4":  {code: 1, stderr: "version 4 of a.json is no file: it was deleted"},
		"a.json 2":  {code: 1, stderr: "version 2 of a.json is not kept any more"},
		"a.json 1":  {code: 1, stderr: "a.json has no version 1"},
		"a.json x":  {code: 2, stderr: `"x" is no number of a version`},
		"a.json -1": {code: 2},
		"a.json":    {code: 2},
		"nothing 1": {code: 1, stderr: "no version of nothing is known"},
	} {
		got := d.run(append([]string{"restore"}, strings.Fields(args)...)...)
		if got.code != want.code || !strings.Contains(got.stderr, want.stderr) || d.read("a.json") != "three\n" {
			t.Errorf("%s: %v", args, got)
		}
	}
}

func TestDiff(t *testing.T) {
	d := fakeFiles(t)
	d.remember(aHistory...)
	d.write("a.json", "six\n")
	const three, five = "a.json (version 3, 2026-03-01 09:02:00 by vim[103])", "a.json (version 5, 2026-03-01 09:05:00 by mv[105])"
	for args, want := range map[string]string{
		"a.json":     "--- " + five + "\n+++ a.json\n@@ -1 +1 @@\n-five\n+six\n",
		"a.json 3":   "--- " + three + "\n+++ a.json\n@@ -1 +1 @@\n-three\n+six\n",
		"a.json 3 5": "--- " + three + "\n+++ " + five + "\n@@ -1 +1 @@\n-three\n+five\n",
		"a.json 5 4": "--- " + five + "\n+++ a.json (version 4, 2026-03-01 09:04:00 by rm[104])\n@@ -1 +0,0 @@\n-five\n",
		"a.json 6":   "",
		"a.json 3 3": "",
		"gone/b":     "--- gone/b (version 1, 2026-03-01 09:03:00 by sh[101] as agent-7)\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
	} {
		got := d.run(append([]string{"diff"}, strings.Fields(args)...)...)
		if got.stdout != want || got.stderr != "" || (got.code == 0) != (want == "") {
			t.Errorf("%s: %v\nwant\n%s", args, got, want)
		}
	}
	for args, want := range map[string]outcome{
		"a.json 2":     {code: 1, stderr: "version 2 of a.json is not kept any more"},
		"a.json 3 x":   {code: 2},
		"a.json 1 2 3": {code: 2},
		"a.tmp":        {code: 1, stderr: "no earlier version of a.tmp is kept"},
	} {
		if got := d.run(append([]string{"diff"}, strings.Fields(args)...)...); got.code != want.code || !strings.Contains(got.stderr, want.stderr) {
			t.Errorf("%s: %v", args, got)
		}
	}
}

// Damaged lines and fields of other types keep nobody from the rest.
func TestHistoryDamaged(t *testing.T) {
	d := fakeFiles(t)
	d.write(".locks/history.jsonl", `{"path":"f","version":2,"time":"2026-03-01T09:02:00Z","event":"commit","kept":true}
{"path":"f","version":1,"ti
[]
{"path":"f"}
{"path":"f","version":1,"time":"2026-03-01T09:01:00Z","event":"commit","kept":true}`)
	got := d.run("history", "f")
	if lines := strings.Split(got.stdout, "\n"); got.code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[1], "1 ") {
		t.Error(got)
	}
}

func TestSameContent(t *testing.T) {
	d := fakeFiles(t)
	long := strings.Repeat("x", 200_000)
	for content, same := range map[string]bool{long: true, long[1:]: false, long[1:] + "y": false, "": false} {
		d.write("a", long)
		d.write("b", content)
		if got, err := sameContent("a", "b"); got != same || err != nil {
			t.Errorf("%d bytes: %v, %v", len(content), got, err)
		}
	}
	if _, err := sameContent("a", "nothing"); err == nil {
		t.Error("a missing file can be read")
	}
}
