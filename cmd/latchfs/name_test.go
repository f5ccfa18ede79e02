package main

import (
	"os"
	"strings"
	"testing"

	"latchfs/fs/control"
)

// links makes a mount in which a file with a history has become a link to another, and
// a link that never was anything else leads there, too.
func links(t *testing.T) *fakeDaemon {
	t.Helper()
	d := fakeFiles(t)
	mustMkdir(t, d.file("sub"))
	d.remember(
		recorded{path: "tgt", version: 1, event: "commit", by: "sh", minute: 1, content: "t1\n"},
		recorded{path: "tgt", version: 2, event: "commit", by: "sh", minute: 2},
		recorded{path: "sub/lnk", version: 1, event: "commit", by: "sh", minute: 3, content: "s1\n"},
		recorded{path: "sub/lnk", version: 2, event: "commit", by: "sh", minute: 4, content: "s2\n"},
		recorded{path: "sub/lnk", version: 3, event: "delete", by: "rm", minute: 5},
	)
	d.write("tgt", "t2\n")
	for link, target := range map[string]string{"sub/lnk": "../tgt", "x": "tgt", "to-sub": "sub", "out": t.TempDir() + "/f", "dangling": "gone"} {
		if err := os.Symlink(target, d.file(link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(d.root)
	return d
}

// forget and restore are about the name, as rm is: not about the file that a link of this
// name leads to. Links on the way are followed.
func TestNamesAreNotFollowed(t *testing.T) {
	d := links(t)
	d.reply = always(`{"ok":true,"versions":1}`)
	names := map[string]string{
		"sub/lnk": "sub/lnk", "to-sub/lnk": "sub/lnk", "to-sub/../x": "x", "x": "x", "x/": "x", "out": "out", "dangling": "dangling",
		"gone/y": "gone/y", "tgt/y/z": "tgt/y/z", "sub": "sub", "sub/.": "sub", d.root + "/x": "x",
	}
	for name, want := range names {
		before := len(d.received())
		got := d.run("forget", name)
		asked := d.received()[before:]
		if got.code != 0 || len(asked) != 1 || asked[0].Op != control.Forget || asked[0].Paths[0] != want {
			t.Errorf("forget %s: %v\nasked %+v", name, got, asked)
		}
	}
	for _, name := range []string{"sub/lnk", "to-sub/lnk"} {
		if got := d.run("restore", name, "1"); got.code != 1 || !strings.Contains(got.stderr, "/sub/lnk is a symbolic link now: remove it or move it away first") {
			t.Errorf("restore %s: %v", name, got)
		}
	}
	for name, want := range map[string]string{"x": "no version of x is known", "out": "no version of out is known"} {
		if got := d.run("restore", name, "1"); got.code != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("restore %s: %v", name, got)
		}
	}
	if text := d.read("tgt"); text != "t2\n" || !isLink(d.file("sub/lnk")) {
		t.Errorf("tgt holds %q", text)
	}
	outside := t.TempDir() + "/into"
	if err := os.Symlink(d.file("tgt"), outside); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"forget", outside}, {"restore", outside, "1"}} {
		if got := d.run(args...); got.code != 1 || !strings.Contains(got.stderr, "not in a latchfs mount: it is a symbolic link") {
			t.Errorf("%s: %v", args, got)
		}
	}
}

// A question by the name of a link is about what had the name; only where nothing had,
// about the file that it leads to.
func TestQuestionsByALink(t *testing.T) {
	d := links(t)
	outside := t.TempDir() + "/into"
	if err := os.Symlink(d.file("tgt"), outside); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		line           string
		code           int
		stdout, stderr string
	}{
		{"history sub/lnk", 0, "deleted", ""},
		{"history to-sub", 0, "sub/lnk", "to-sub is a symbolic link: this is about sub"},
		{"history x", 0, "current", "x is a symbolic link: this is about tgt"},
		{"history " + outside, 0, "current", "is a symbolic link: this is about tgt"},
		{"history out", 1, "", "no version of out is known; it is a symbolic link, and "},
		{"history dangling", 1, "", "no version of gone is known"},
		{"diff x 1", 1, "-t1\n+t2\n", "x is a symbolic link: this is about tgt"},
		{"diff sub/lnk 1 2", 1, "-s1\n+s2\n", ""},
		{"diff sub/lnk 1", 1, "", "sub/lnk is a symbolic link now, which is not compared"},
	} {
		got := d.run(strings.Fields(tt.line)...)
		if got.code != tt.code || !strings.Contains(got.stdout, tt.stdout) || !strings.Contains(got.stderr, tt.stderr) ||
			tt.stderr == "" && got.stderr != "" || tt.stdout == "" && got.stdout != "" {
			t.Errorf("%s: %v", tt.line, got)
		}
	}
	if got := d.run("history", "out"); !strings.HasSuffix(got.stderr, "/f is not in a latchfs mount\n") {
		t.Errorf("of a link that leads out: %v", got)
	}
}
