package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// fakeFiles is a directory that poses as a mount and whose .locks is files.
func fakeFiles(t *testing.T) *fakeDaemon {
	t.Helper()
	d := newFakeDaemon(t, func(req control.Request) string {
		if req.Op == control.Pin || req.Op == control.Unpin {
			return `{"ok":true,"versions":1}`
		}
		return hangUp
	})
	mustMkdir(t, d.file(".locks"))
	t.Chdir(d.root)
	return d
}

func (d *fakeDaemon) write(name, content string) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(d.file(name)), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(d.file(name), []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *fakeDaemon) read(name string) string {
	d.t.Helper()
	b, err := os.ReadFile(d.file(name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// reject puts an entry below .locks/rejected.
func (d *fakeDaemon) reject(id, content, meta string) {
	d.t.Helper()
	d.write(".locks/rejected/"+id+"/content", content)
	if meta != "" {
		d.write(".locks/rejected/"+id+"/meta.json", meta)
	}
}

const (
	firstID  = "20251121T115450.000000000-000000aa"
	secondID = "20251121T115500.000000000-000000ab"
	thirdID  = "20251121T115600.000000000-0000beef"
)

// rejectThree fills the store: one of a known file, one for the end of a file, one
// of which nothing is known.
func (d *fakeDaemon) rejectThree() {
	d.reject(firstID, "mine\n", `{"id": "`+firstID+`", "path": "src/a.json", "time": "2025-11-21T11:54:50Z", "program": "python3", "pid": 4711,
 "errno": "EBADMSG", "reason": "not JSON", "operation": "open", "base": null, "file": {"size": 5, "mode": "0640", "uid": 0, "gid": 0}}`)
	d.reject(secondID, "line\n", `{"path": "run.log\u001b[2J", "time": "2025-11-21T11:55:00Z", "operation": "append", "reason": "full", "file": {"size": 5, "mode": "0600", "uid": 0, "gid": 0}}`)
	d.reject(thirdID, "?", "")
	at := time.Date(2025, 11, 21, 11, 56, 0, 0, time.UTC)
	if err := os.Chtimes(d.file(".locks/rejected/"+thirdID+"/content"), at, at); err != nil {
		d.t.Fatal(err)
	}
}

func TestRejectedList(t *testing.T) {
	d := fakeFiles(t)
	if got := d.run("rejected", "list"); got.code != 1 || !strings.Contains(got.stderr, "rejected: no such file") {
		t.Errorf("without a store: %v", got)
	}
	mustMkdir(t, d.file(".locks/rejected"))
	if got := d.run("rejected", "list"); got != (outcome{}) {
		t.Errorf("of an empty store: %v", got)
	}
	d.rejectThree()
	want := outcome{stdout: `ID                                  TIME                 FILE             BYTES  PROGRAM        WHY
20251121T115450.000000000-000000aa  2025-11-21 11:54:50  src/a.json       5      python3[4711]  not JSON
20251121T115500.000000000-000000ab  2025-11-21 11:55:00  run.log\x1b[2J  5      -              full
20251121T115600.000000000-0000beef  2025-11-21 11:56:00  -                1      -              -
`}
	got := d.run("rejected", "list")
	if strings.Join(strings.Fields(got.String()), " ") != strings.Join(strings.Fields(want.String()), " ") {
		t.Errorf("%v\nwant %v", got, want)
	}
	for _, below := range []string{"src", "src/a.json", d.root + "/src/"} {
		if got := d.run("rejected", "list", below); strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, "a.json") {
			t.Errorf("below %s: %v", below, got)
		}
	}
	if got := d.run("rejected", "list", "gone/sr", "s"); got != (outcome{}) {
		t.Errorf("elsewhere: %v", got)
	}
}

func TestRejectedListJSON(t *testing.T) {
	d := fakeFiles(t)
	d.rejectThree()
	got := d.run("rejected", "list", "--json")
	lines := strings.Split(got.stdout, "\n")
	if got.code != 0 || len(lines) != 4 {
		t.Fatal(got)
	}
	for i, want := range []string{"a.json", "run.log", ""} {
		var o struct {
			ID   string `json:"id"`
			Path string `json:"path"`
			File struct {
				Size int `json:"size"`
			} `json:"file"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &o); err != nil || !strings.Contains(o.Path, want) || o.File.Size == 0 {
			t.Errorf("%v: %s", err, lines[i])
		}
	}
}

func TestRejectedShow(t *testing.T) {
	d := fakeFiles(t)
	d.rejectThree()
	for id, want := range map[string]outcome{
		firstID:                  {stdout: "mine\n"},
		"00aa":                   {stdout: "mine\n"},
		"20251121T115500":        {stdout: "line\n"},
		"beef":                   {stdout: "?"},
		"--meta\x00beef":         {code: 1, stderr: "meta.json: no such file"},
		"20251121":               {code: 2, stderr: "could be"},
		"nothing":                {code: 1, stderr: "no such entry"},
		"--diff\x00beef":         {code: 1, stderr: "not known which file"},
		"--diff\x00ab":           {code: 1, stderr: "for the end of"},
		"--diff\x00--meta\x00aa": {code: 2, stderr: "--meta"},
	} {
		got := d.run(append([]string{"rejected", "show"}, strings.Split(id, "\x00")...)...)
		if got.code != want.code || got.stdout != want.stdout || !strings.Contains(got.stderr, want.stderr) {
			t.Errorf("%q: %v", id, got)
		}
	}
	if got := d.run("rejected", "show", "--meta", "aa"); got.code != 0 || got.stdout != d.read(".locks/rejected/"+firstID+"/meta.json") {
		t.Error(got)
	}
}

func TestRejectedDiff(t *testing.T) {
	d := fakeFiles(t)
	d.rejectThree()
	got := d.run("rejected", "show", "--diff", "aa")
	want := "--- /dev/null\n+++ src/a.json (refused 2025-11-21 11:54:50)\n@@ -0,0 +1 @@\n+mine\n"
	if got != (outcome{code: 1, stdout: want}) {
		t.Error(got)
	}
	d.write("src/a.json", "mine\n")
	if got := d.run("rejected", "show", "--diff", "aa"); got != (outcome{}) {
		t.Errorf("of equal files: %v", got)
	}
	t.Setenv("PATH", t.TempDir())
	if got := d.run("rejected", "show", "--diff", "aa"); got.code != 1 || !strings.Contains(got.stderr, "executable file not found") {
		t.Errorf("without diff(1): %v", got)
	}
}

func TestRejectedRestore(t *testing.T) {
	d := fakeFiles(t)
	d.rejectThree()
	mustMkdir(t, d.file("src"))
	said := "src/a.json restored from " + firstID + ", 5 bytes\n"
	if got := d.run("rejected", "restore", "aa"); got != (outcome{stdout: said}) {
		t.Fatal(got)
	}
	if st, err := os.Stat("src/a.json"); err != nil || st.Mode() != 0o640 || d.read("src/a.json") != "mine\n" {
		t.Errorf("restored %v, %v", st, err)
	}
	// It was a new file; now there is one.
	d.write("src/a.json", "theirs\n")
	got := d.run("rejected", "restore", "aa")
	if got.code != 1 || !strings.Contains(got.stderr, "src/a.json was made by somebody else: it would be lost") || d.read("src/a.json") != "theirs\n" {
		t.Error(got)
	}
	if got := d.run("rejected", "restore", "--force", "aa"); got.code != 0 || d.read("src/a.json") != "mine\n" {
		t.Error(got)
	}
	if d.read(".locks/rejected/"+firstID+"/content") != "mine\n" {
		t.Error("the entry has changed")
	}
}

func TestRejectedRestoreAppends(t *testing.T) {
	d := fakeFiles(t)
	d.reject(firstID, "line\n", `{"path": "log", "operation": "append", "file": {"size": 5, "mode": "0600", "uid": 0, "gid": 0}}`)
	d.write("log", "others\n")
	if got := d.run("rejected", "restore", "aa"); got.code != 0 || d.read("log") != "others\nline\n" {
		t.Errorf("%v\n%s", got, d.read("log"))
	}
}

// What has changed since the writer opened it is replaced by force alone.
func TestRejectedRestoreChanged(t *testing.T) {
	at := time.Date(2025, 11, 21, 11, 0, 0, 123456789, time.UTC)
	const unknown = ""
	asBase := `,"base": {"size": 4, "mtime": "2025-11-21T11:00:00.123456789Z"}`
	for name, test := range map[string]struct {
		base    string
		content string // "" if the file is gone
		mtime   time.Time
		refusal string
	}{
		"as it was":               {asBase, "base", at, ""},
		"longer":                  {asBase, "based", at, "has changed since the refused writer opened it"},
		"newer":                   {asBase, "esab", at.Add(1), "has changed since the refused writer opened it"},
		"gone":                    {asBase, "", at, "was removed"},
		"unknown base, older":     {unknown, "base", at, ""},
		"unknown base, newer":     {unknown, "base", at.Add(2 * time.Hour), "has changed since"},
		"unknown base, no file":   {unknown, "", at, ""},
		"new, and still not here": {`,"base": null`, "", at, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := fakeFiles(t)
			d.reject(firstID, "mine", `{"path": "f", "time": "2025-11-21T12:00:00Z", "file": {"size": 4, "mode": "0600", "uid": 0, "gid": 0}`+test.base+`}`)
			if test.content != "" {
				d.write("f", test.content)
				if err := os.Chtimes("f", at, test.mtime); err != nil {
					t.Fatal(err)
				}
			}
			got := d.run("rejected", "restore", "aa")
			if test.refusal == "" {
				if got.code != 0 || d.read("f") != "mine" {
					t.Error(got)
				}
				return
			}
			if got.code != 1 || !strings.Contains(got.stderr, "f "+test.refusal+": it would be lost") {
				t.Error(got)
			}
			if got := d.run("rejected", "restore", "--force", "aa"); got.code != 0 || d.read("f") != "mine" {
				t.Error(got)
			}
		})
	}
}

func TestRejectedRestoreTo(t *testing.T) {
	d := fakeFiles(t)
	d.rejectThree()
	out := filepath.Join(t.TempDir(), "out")
	if got := d.run("rejected", "restore", "beef"); got.code != 1 || !strings.Contains(got.stderr, "--to FILE") {
		t.Error(got)
	}
	if got := d.run("rejected", "restore", "beef", "--to", out); got != (outcome{stdout: out + " restored from " + thirdID + ", 1 byte\n"}) {
		t.Error(got)
	}
	if got := d.run("rejected", "restore", "aa", "--to", out); got.code != 1 || !strings.Contains(got.stderr, "--force") {
		t.Error(got)
	}
	if got := d.run("rejected", "restore", "aa", "--to", out, "--force"); got.code != 0 {
		t.Error(got)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "mine\n" {
		t.Errorf("%q, %v", b, err)
	}
	if got := d.run("rejected", "restore", "aa", "--to", ""); got.code != 2 {
		t.Error(got)
	}
}

// What was cut on the disk is not passed off as what was kept.
func TestRejectedCut(t *testing.T) {
	d := fakeFiles(t)
	d.reject(firstID, "KIL", `{"id": "`+firstID+`", "path": "a", "time": "2025-11-21T11:54:50Z", "reason": "killed", "base": null, "file": {"size": 6, "mode": "0640", "uid": 0, "gid": 0}}`)
	if got := d.run("rejected", "list"); !strings.Contains(squeezed(got.stdout), " a 3 - killed; only 3 of its 6 bytes are there") {
		t.Error(got)
	}
	if got := d.run("rejected", "list", "--json"); !strings.Contains(got.stdout, `"bytes_left":3`) {
		t.Error(got)
	}
	for _, args := range [][]string{{"aa"}, {"aa", "--to", "b"}} {
		got := d.run(append([]string{"rejected", "restore"}, args...)...)
		if _, err := os.Lstat(d.file(args[len(args)-1])); got.code != 1 || !strings.Contains(got.stderr, "only 3 of its 6 bytes are there") || err == nil {
			t.Error(got)
		}
	}
	if got := d.run("rejected", "restore", "aa", "--force"); got.code != 0 || !strings.HasSuffix(got.stdout, ", 3 bytes\n") || d.read("a") != "KIL" {
		t.Error(got)
	}
}

// The group gets no more by a restore than the file's ACL gave it.
func TestRejectedRestoreOfWhatHadAnACL(t *testing.T) {
	d := fakeFiles(t)
	d.reject(firstID, "mine", `{"path": "f", "acl": true, "base": null, "file": {"size": 4, "mode": "0664", "uid": 0, "gid": 0}}`)
	if got := d.run("rejected", "restore", "aa"); got.code != 0 {
		t.Fatal(got)
	}
	if st, err := os.Stat("f"); err != nil || st.Mode() != 0o604 {
		t.Errorf("restored %v, %v", st, err)
	}
}

// Paths of the records lead nowhere else: not through links, not out of the mount.
func TestRestoreStaysInside(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"link/victim", "link/new", "link/sub/new", "leaf", "../" + filepath.Base(outside) + "/victim", "fifo", "dir", "/etc/x"} {
		d := fakeFiles(t)
		mustMkdir(t, d.file("dir"))
		if err := os.Symlink(outside, d.file("link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, d.file("leaf")); err != nil {
			t.Fatal(err)
		}
		mustFIFO(t, d.file("fifo"))
		d.reject(firstID, "mine", `{"path": "`+p+`", "file": {"size": 4, "mode": "0600", "uid": 0, "gid": 0}}`)
		if got := d.run("rejected", "restore", "--force", "aa"); got.code != 1 {
			t.Errorf("%s: %v", p, got)
		}
		entries, err := os.ReadDir(outside)
		b, _ := os.ReadFile(victim)
		if err != nil || len(entries) != 1 || string(b) != "theirs" {
			t.Errorf("%s: outside are %v, %q", p, entries, b)
		}
	}
}

// What cannot be read to its end is not begun to be written.
func TestRestoreUnreadable(t *testing.T) {
	d := fakeFiles(t)
	d.reject(firstID, "", `{"path": "f", "file": {"size": 4, "mode": "0600", "uid": 0, "gid": 0}}`)
	if err := os.Remove(d.file(".locks/rejected/" + firstID + "/content")); err != nil {
		t.Fatal(err)
	}
	mustMkdir(t, d.file(".locks/rejected/"+firstID+"/content")) // every read of it fails
	d.write("f", "old")
	if got := d.run("rejected", "restore", "--force", "aa"); got.code != 1 || !strings.Contains(got.stderr, "is a directory") || d.read("f") != "old" {
		t.Errorf("%v %q", got, d.read("f"))
	}
}

func mustFIFO(t *testing.T, name string) {
	t.Helper()
	if err := unix.Mkfifo(name, 0o666); err != nil {
		t.Fatal(err)
	}
}
