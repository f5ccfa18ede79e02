package main

import (
	"bytes"
	"strings"
	"testing"
)

// Whoever gives a command too few arguments, or too many, is told which it wants.
func TestExactArguments(t *testing.T) {
	for line, want := range map[string]string{
		"umount":            "latchfs umount: want MOUNTPOINT\n",
		"umount a b":        "latchfs umount: want MOUNTPOINT, and there are 2 arguments\n",
		"restore f":         "latchfs restore: want FILE VERSION, and there is one argument\n",
		"rejected restore":  "latchfs rejected restore: want ID\n",
		"fsck a b c":        "latchfs fsck: want DIR, and there are 3 arguments\n",
		"label":             "latchfs label: want NAME\n",
		"forget a b --json": "latchfs forget: want FILE, and there are 2 arguments\n",
	} {
		var stdout, stderr bytes.Buffer
		code := execute(strings.Fields(line), &stdout, &stderr)
		if got := stderr.String(); code != exitUsage || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %d %q, want %q", line, code, got, want)
		}
	}
}
