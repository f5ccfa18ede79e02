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
		"diff":              "latchfs diff: want FILE [VERSION [VERSION]]\n",
		"diff f 1 2 3":      "latchfs diff: want FILE [VERSION [VERSION]], and there are 4 arguments\n",
		"history a b":       "latchfs history: want [FILE|DIR], and there are 2 arguments\n",
		"list a b":          "latchfs list: want [PATH], and there are 2 arguments\n",
		"status a b":        "latchfs status: want [PATH], and there are 2 arguments\n",
		"policy check":      "latchfs policy check: want FILE...\n",
		"policy test":       "latchfs policy test: want PATH...\n",
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

// What is asked for wrongly is told as the user has asked for it.
func TestMistakesAreTold(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.toml": "what = 1\n", "b.toml": "why = 2\n", "good.toml": ""} {
		mustWrite(t, dir+"/"+name, text, 0o600)
	}
	t.Chdir(dir)
	for _, tt := range []struct {
		line           string
		code           int
		stdout, stderr string
	}{
		{"help nosuch", exitUsage, "", "latchfs help: there is no command \"nosuch\"\n"},
		{"help rejected nosuch", exitUsage, "", "there is no command \"rejected nosuch\""},
		{"help rejected list", exitOK, "rejected list", ""},
		{"help", exitOK, "Available Commands", ""},
		{"help restore", exitOK, "latchfs restore FILE VERSION", ""},
		{"--version", exitOK, versionLine() + "\n", ""},
		{"forget --version x f", exitUsage, "", "\"--version\" flag: want the number of a version, from 1"},
		{"forget --version 0 f", exitUsage, "", "want the number of a version, from 1"},
		{"break --nosuch", exitUsage, "", "latchfs break: unknown flag"},
		{"steal --nosuch", exitUsage, "", "latchfs steal: unknown flag"},
		{"policy check a.toml good.toml b.toml", exitFailure, "", "b.toml:1"},
		{"policy check a.toml good.toml b.toml", exitFailure, "", "a.toml:1"},
		{"policy check good.toml", exitOK, "", ""},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(strings.Fields(tt.line), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) ||
			tt.stderr == "" && stderr.Len() > 0 || tt.stdout == "" && stdout.Len() > 0 || strings.Contains(stderr.String(), "strconv") {
			t.Errorf("%s: %d\n--- stdout\n%s--- stderr\n%s", tt.line, code, stdout.String(), stderr.String())
		}
	}
}
