package locksdir

import (
	"strings"
	"testing"
)

// openDirs sees what lies in some directories.
type openDirs []string

func (o openDirs) Sees(path string, _ uint32) bool {
	for _, dir := range o {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

func (openDirs) Stands() bool { return true }

// Whoever is in the way is shown under the path that was asked for, if the lock is on
// something that the viewer cannot reach, and without what is the holder's own affair.
func TestShownInTheWay(t *testing.T) {
	held := Record{
		Path: "secret/f", Key: "//inode/1:2", Tree: true, Program: "vim", UID: 7, Actor: "nightly", Cmdline: []string{"vim", "secret/f"}, Cwd: "/secret",
	}
	stranger, holder := Viewer{UID: 8}, Viewer{UID: 7}
	var none *Record
	if none.ShownInTheWay("open/g", stranger, openDirs{"open"}) != nil {
		t.Error("nobody is in the way, and is shown")
	}
	if r := held.ShownInTheWay("open/g", stranger, nil); r != &held {
		t.Errorf("a viewer who sees everything is shown %+v", r)
	}
	r := held.ShownInTheWay("open/g", stranger, openDirs{"open"})
	if r.Path != "open/g" || r.Key != "" || r.Tree || r.Program != "vim" || r.Actor != "" || r.Cmdline != nil || r.Cwd != "" {
		t.Errorf("a stranger who reaches what it asked for is shown %+v", r)
	}
	r = held.ShownInTheWay("hidden/g", stranger, openDirs{"open"})
	if r.Path != "" || r.Program != "vim" || r.Actor != "" || r.Cmdline != nil || r.Cwd != "" {
		t.Errorf("a stranger who cannot reach what it asked for is shown %+v", r)
	}
	r = held.ShownInTheWay("open/g", holder, openDirs{"open", "secret"})
	if r.Path != "secret/f" || r.Actor != "nightly" || r.Cwd != "/secret" {
		t.Errorf("the holder's user is shown %+v", r)
	}
	if held.Path != "secret/f" || held.Actor != "nightly" {
		t.Errorf("the record itself has changed: %+v", held)
	}
}
