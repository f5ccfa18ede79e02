package main

import (
	"strings"
	"testing"

	"latchfs/fs/control"
)

// undoWith plays an undo of two changed files and one that was made, with a daemon that answers so.
func undoWith(t *testing.T, reply func(control.Request) string, args ...string) (*fakeDaemon, outcome) {
	t.Helper()
	d := fakeFiles(t)
	d.reply = reply
	d.arrange(map[string]undoCase{"changed": undoCases["changed"], "changed-twice": undoCases["changed-twice"], "created": undoCases["created"]})
	return d, d.undo(args...)
}

// What is put back is pinned before anything is changed, and let go as soon as it is there.
func TestUndoPins(t *testing.T) {
	asked := make(chan string, 100)
	_, got := undoWith(t, func(req control.Request) string {
		asked <- req.Op + " " + strings.Join(req.Paths, " ")
		return `{"ok":true,"versions":1}`
	})
	want := "pin changed,pin changed-twice,unpin changed,unpin changed-twice"
	var all []string
	for len(asked) > 0 {
		all = append(all, <-asked)
	}
	if s := strings.Join(all, ","); got.code != 0 || s != want {
		t.Errorf("%v\n%q, want %q", got, s, want)
	}
}

// A version that cannot be pinned is gone: then nothing is changed, or the rest.
func TestUndoOfWhatHasJustGone(t *testing.T) {
	gone := func(req control.Request) string {
		if req.Op == control.Pin && req.Paths[0] == "changed" {
			return `{"ok":false,"error":"not_kept","message":"gone"}`
		}
		return `{"ok":true,"versions":1}`
	}
	d, got := undoWith(t, gone)
	if got.code != 1 || !strings.Contains(got.stdout, "refused   changed: version 1 of changed is not kept any more") || d.holds("created") != "new" || d.holds("changed-twice") != "newer" {
		t.Error(got)
	}
	d, got = undoWith(t, gone, "--keep-going")
	if got.code != 1 || d.holds("changed") != "new" || d.holds("created") != "" || d.holds("changed-twice") != "earlier" {
		t.Error(got)
	}
}

// Without pins nothing is changed.
func TestUndoWithoutPins(t *testing.T) {
	for reply, want := range map[string]string{
		hangUp: "ended without a reply",
		`{"ok":false,"error":"invalid","message":"unknown op"}`:        "earlier latchfs",
		`{"ok":false,"error":"unavailable","message":"no more of it"}`: "version 1 of changed cannot be kept until it is put back: no more of it",
	} {
		d, got := undoWith(t, always(reply))
		if got.code != 1 || !strings.Contains(got.stderr, want) || d.holds("changed") != "new" || d.holds("created") != "new" {
			t.Errorf("%s: %v", reply, got)
		}
	}
}
