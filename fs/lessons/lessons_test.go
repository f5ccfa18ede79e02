package lessons

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/report"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/programs"
)

const (
	ann  = 1001
	bob  = 1002
	fade = 10 * time.Minute
	edit = "/usr/bin/edit --password=hunter2"
)

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }

// disk is what was written.
type disk struct {
	mu   sync.Mutex
	last string
	n    int
	full error
	told error
}

func (d *disk) lessons() *Lessons { return New(d.write, func(err error) { d.told = err }) }

func (d *disk) write(data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full == nil {
		d.last, d.n = string(data), d.n+1
	}
	return d.full
}

func (d *disk) writes() (last string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.n
}

// learn lets one of ann's programs write back what it read, so that its reads claim.
func learn(t *testing.T, ls *Lessons, path, program string) {
	t.Helper()
	if ls.Read(path, program, ann, owner(10), nil) {
		t.Fatalf("reads of %s claim already", program)
	}
	ls.Wrote(path, knowledge.Who{Self: owner(10)}, fade)
	if !ls.Read(path, program, ann, owner(11), nil) {
		t.Fatalf("reads of %s do not claim", program)
	}
}

// What is learned is written when it has changed, and not otherwise, and known after a
// restart.
func TestSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		ls := d.lessons()
		ls.Read("f", edit, ann, owner(10), nil)
		ls.Wrote("g", knowledge.Who{Self: owner(10)}, fade)
		synctest.Wait()
		if _, n := d.writes(); n != 0 {
			t.Errorf("%d writes before anything is learned", n)
		}
		learn(t, ls, "f", edit)
		synctest.Wait()
		last, n := d.writes()
		if n != 1 || !strings.Contains(last, "edit") {
			t.Errorf("%d writes, the last one %s", n, last)
		}
		ls.Wrote("f", knowledge.Who{Self: owner(11)}, fade) // known already
		synctest.Wait()
		if _, n := d.writes(); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		ls.Save()
		next := d.lessons()
		data, _ := d.writes()
		if err := next.Load([]byte(data)); err != nil {
			t.Fatal(err)
		}
		if !next.Read("h", edit, ann, owner(20), nil) {
			t.Error("after a restart its reads do not claim")
		}
		if err := next.Load([]byte("{")); err == nil {
			t.Error("a broken file is loaded")
		}
		if d.full = unix.ENOSPC; d.told != nil {
			t.Errorf("told of %v", d.told)
		}
		if ls.Save(); d.told != unix.ENOSPC {
			t.Errorf("told of %v, want ENOSPC", d.told)
		}
	})
}

// A program whose claims come to nothing is forgotten, which is written, too.
func TestClaimsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		ls := d.lessons()
		learn(t, ls, "f", edit)
		synctest.Wait()
		for range programs.Forgets {
			ls.Claimed("") // for another reason
			ls.Ended("", false)
			ls.Claimed(edit)
			ls.Ended(edit, false)
		}
		synctest.Wait()
		if _, n := d.writes(); n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
		p := ls.List()[0]
		if p.Claims || p.Claimed != programs.Forgets {
			t.Errorf("%+v", p)
		}
		if ls.Read("f", edit, ann, owner(12), nil) {
			t.Error("its reads claim still")
		}
	})
}

// A claim that was of use is one in favour.
func TestClaimsOfUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := new(disk).lessons()
		learn(t, ls, "f", edit)
		for n := range 3 * programs.Forgets {
			ls.Claimed(edit)
			ls.Ended(edit, n%2 == 0)
		}
		if !ls.List()[0].Claims {
			t.Error("it is forgotten")
		}
	})
}

// Relatives write back what was read; what has no name learns nothing; what was read below
// a directory goes with it.
func TestWhoHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := new(disk).lessons()
		ls.Read("f", "", ann, owner(10), nil)
		ls.Wrote("f", knowledge.Who{Self: owner(10)}, fade)
		if len(ls.List()) > 0 {
			t.Errorf("known: %+v", ls.List())
		}
		ls.Read("f", "jq", ann, owner(11), []lockmgr.Owner{owner(10)})
		ls.Wrote("f", knowledge.Who{Self: owner(12), Relatives: []lockmgr.Owner{owner(10)}}, fade)
		ls.Read("d/f", "sed", ann, owner(13), nil)
		ls.Moved("d", "e", false)
		ls.Wrote("e/f", knowledge.Who{Self: owner(13)}, fade)
		ls.Read("f", "late", ann, owner(14), nil)
		time.Sleep(fade + time.Second)
		ls.Wrote("f", knowledge.Who{Self: owner(14)}, fade)
		for _, p := range ls.List() {
			if p.Claims != (p.Name != "late") {
				t.Errorf("%s: %v", p.Name, p.Claims)
			}
		}
		if n := len(ls.List()); n != 3 {
			t.Errorf("%d programs", n)
		}
	})
}

// Where no path asks for it nothing is learned.
func TestNothing(t *testing.T) {
	var ls *Lessons
	if ls.Read("f", edit, ann, owner(10), nil) {
		t.Error("a read claims")
	}
	ls.Wrote("f", knowledge.Who{Self: owner(10)}, fade)
	ls.Claimed(edit)
	ls.Ended(edit, true)
	ls.Moved("a", "b", true)
	ls.Save()
	if got := string(ls.Show(report.Viewer{}, nil)); len(ls.List()) > 0 || !strings.Contains(got, "see policy") {
		t.Errorf("shown: %s", got)
	}
}

// sees is a sight of some paths.
type sees string

func (s sees) Sees(path string, _ uint32) bool { return path == string(s) }
func (sees) Stands() bool                      { return true }

// Arguments of a program are its user's, and a path is for who can reach it.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := new(disk).lessons()
		learn(t, ls, "private/f", edit)
		for what, c := range map[string]struct {
			v      report.Viewer
			sight  report.Sight
			has    []string
			hasNot []string
		}{
			"its user":           {report.Viewer{UID: ann}, sees("private/f"), []string{"hunter2", "private/f"}, nil},
			"its user, shut out": {report.Viewer{UID: ann}, sees(""), []string{"hunter2", "a file at"}, []string{"private"}},
			"another":            {report.Viewer{UID: bob}, sees(""), []string{"edit", "a file at"}, []string{"hunter2", "/usr/bin", "private"}},
			"another inside":     {report.Viewer{UID: bob}, sees("private/f"), []string{"edit", "private/f"}, []string{"hunter2"}},
			"root":               {report.Viewer{Privileged: true}, nil, []string{"hunter2", "private/f"}, nil},
		} {
			got := string(ls.Show(c.v, c.sight))
			for _, text := range append(c.has, "yes", "wrote back") {
				if !strings.Contains(got, text) {
					t.Errorf("%s: no %q in\n%s", what, text, got)
				}
			}
			for _, text := range c.hasNot {
				if strings.Contains(got, text) {
					t.Errorf("%s: %q in\n%s", what, text, got)
				}
			}
		}
	})
}

// Why a program's reads claim, or not.
func TestWhy(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for want, p := range map[string]programs.Program{
		"wrote back f\\nx at 2026-01-02 03:04:05":                                {Claims: true, Written: 1, Path: "f\nx", At: at},
		"has not been seen to write back what it read":                           {},
		"wrote back f at 2026-01-02 03:04:05, and then claimed 20 times in vain": {Written: 1, Path: "f", At: at},
	} {
		if got := why(&p, nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Several may learn at once, and each save has all that was known before it.
func TestAtOnce(t *testing.T) {
	var d disk
	ls := d.lessons()
	var wg sync.WaitGroup
	for n := range int32(4) {
		wg.Go(func() {
			name := "program " + string('a'+rune(n))
			ls.Read("f", name, ann, owner(10+n), nil)
			ls.Wrote("f", knowledge.Who{Self: owner(10 + n)}, fade)
			ls.Save()
			if last, _ := d.writes(); !strings.Contains(last, name) {
				t.Errorf("%s is not in %s", name, last)
			}
		})
	}
	wg.Wait()
}
