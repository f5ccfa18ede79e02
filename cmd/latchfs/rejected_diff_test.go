package main

import (
	"strings"
	"testing"
)

func TestRejectedDiffCommand(t *testing.T) {
	d := fakeFiles(t)
	d.rejectThree()
	d.write("src/a.json", "theirs\n")
	if got := d.run("rejected", "diff", "aa"); got.code != 1 || !strings.Contains(got.stdout, "\n-theirs\n+mine\n") {
		t.Errorf("from the file: %v", got)
	}
	d.write("src/a.json", "mine\n")
	if got := d.run("rejected", "diff", "aa"); got != (outcome{}) {
		t.Errorf("from the same: %v", got)
	}
	for id, want := range map[string]string{
		"aa":   "it is not known which version of src/a.json it was made from",
		"beef": "it is not known which file",
		"ff":   "no such entry",
	} {
		if got := d.run("rejected", "diff", "--base", id); got.code != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("from the base of %s: %v", id, got)
		}
	}
	if got := d.run("rejected", "diff"); got.code != 2 {
		t.Errorf("without an id: %v", got)
	}
}
