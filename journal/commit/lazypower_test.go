package commit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// What is published without a sync, while others commit the filesystem's journal before each
// step and the power fails: what is new is whole or absent, and over a version there is that
// one or the new one.
func TestPowerCutAtEveryStepOfALazyCommit(t *testing.T) {
	shelf := cloneShelf(t)
	for _, d := range poweredDisks {
		if d.kind == "btrfs" {
			continue // there it waits for syncs
		}
		for _, links := range []bool{true, false} {
			if links && !d.order {
				continue // there are symbolic links anyway
			}
			t.Run(fmt.Sprint(d, " ", links), func(t *testing.T) { cutLazyCommits(t, d, shelf, links) })
		}
	}
}

// cutLazyCommits does so with markers that are links, or symbolic ones.
func cutLazyCommits(t *testing.T, d powered, shelf string, links bool) {
	image, at := d.make(t, shelf)
	w := newWorld(t, at)
	w.s.lazyAnywhere = false
	w.write("f", "old content")
	check(t, unix.Syncfs(int(w.dir.Fd())))
	c := &cuts{t: t, image: image, w: w}
	made := false
	w.s.disk.Fault = func(step string) error {
		made = made || step == "mark"
		if step == "mark" && !links {
			return unix.EXDEV
		}
		return c.before(step)
	}
	text := strings.Repeat("a line of text\n", 1000)
	for _, name := range []string{"a", "b"} {
		if !w.saveAs(Auto, name, text+name, "") {
			t.Fatal("not saved")
		}
	}
	for _, version := range []string{"1", "2"} {
		if !w.saveLazily("f", text+version, contentID(version)) {
			t.Fatal("not saved")
		}
	}
	if made != d.order {
		t.Errorf("a link was tried: %v", made)
	}
	last := len(c.steps)
	commitJournal(t, w)
	check(t, w.settleAll())
	c.end()
	c.each(d, func(step string, after *booted) {
		for _, name := range []string{"a", "b"} {
			got, err := os.ReadFile(after.path(name))
			if string(got) != text+name && (err == nil || step == "") {
				t.Errorf("before %q: %s has %d bytes, %v", step, name, len(got), err)
			}
		}
		switch got := after.read("f"); {
		case got == text+"2":
		case step == "" || got != "old content" && got != text+"1":
			t.Errorf("before %q: %d bytes, %.20q", step, len(got), got)
		}
	})
	t.Logf("%d cuts, %d of them while it was settled", len(c.steps), len(c.steps)-last)
}

// A crash of an earlier version has left symbolic links for markers, as this version makes
// them for long names.
func TestMarkersOfAnEarlierVersion(t *testing.T) {
	for what, mark := range map[string]func(w *world, name, content string, torn bool){
		"written by hand": (*world).leaveOldMarker,
		"of a long name": func(w *world, name, content string, torn bool) {
			if !w.saveAs(Auto, "d/"+name, content, "") {
				w.t.Fatal("not saved")
			}
			if torn {
				check(w.t, os.Truncate(w.path("d/"+name), 3))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.write("d/other", "other")
			long := strings.Repeat("x", 200)
			mark(w, long+"whole", "content", false)
			mark(w, long+"torn", "content", true)
			for _, name := range w.leftovers() {
				if st := w.stat(name); st.Mode&unix.S_IFMT != unix.S_IFLNK {
					t.Errorf("%q is not a symbolic link", name)
				}
			}
			w.start()
			w.s.disk.Epoch = func(int) string { return "another" }
			r, err := w.s.Recover()
			check(t, err)
			_, err = os.Stat(w.path("d/" + long + "torn"))
			if !errors.Is(err, os.ErrNotExist) || len(r.Reverted) != 1 || w.read("d/"+long+"whole") != "content" {
				t.Errorf("%v, %+v", err, r.Reverted)
			}
			w.checkNothingLeft()
		})
	}
}

// leaveOldMarker makes a new file in d, of which a power cut has left three bytes if it is
// torn, and the marker that latchfs-lazy-2 has.
func (w *world) leaveOldMarker(name, content string, torn bool) {
	w.t.Helper()
	w.write("d/"+name, content)
	f := openFile(w.t, w.path("d/"+name), os.O_RDWR)
	st, dir := w.stat("d/"+name), openFile(w.t, w.path("d"), os.O_RDONLY)
	says := fmt.Sprintf("%x %x %x %x %x %x 0 - - %s", 1, st.Ino, disk.Birth(int(f.Fd())), len(content), st.Mtim.Nano(),
		journal.Checksum([]byte(content)), name)
	marker := disk.ReservedPrefix + fmt.Sprintf("%032x", st.Ino)
	check(w.t, os.Symlink(fmt.Sprintf("latchfs-lazy-2 %08x %s", journal.Checksum([]byte(says)), says), w.path("d/"+marker)))
	of := w.stat("d")
	_, err := w.j.Begin(journal.Intent{Kind: journal.KindLazy, Dir: "d", ShadowDir: "d", TargetDev: uint64(of.Dev), TargetIno: of.Ino, TargetBirth: disk.Birth(int(dir.Fd()))})
	check(w.t, err)
	if torn {
		check(w.t, f.Truncate(3))
	}
}

// A file that has the name of a marker, and is not a link of the file that markers are links
// of, says nothing, and stays.
func TestWhatLooksLikeAMarkerIsLeftAlone(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "other")
	if !w.saveAs(Auto, "d/f", "content", "") {
		t.Fatal("not saved")
	}
	left := w.leftovers()
	if len(left) != 1 || !strings.HasPrefix(left[0], "d/"+disk.MarkerPrefix) {
		t.Fatalf("the markers are %q", left)
	}
	check(t, os.Remove(w.path(left[0])))
	w.write(left[0], "somebody's")
	check(t, os.Truncate(w.path("d/f"), 3))
	w.start()
	w.s.disk.Epoch = func(int) string { return "another" }
	_, err := w.s.Recover()
	check(t, err)
	_, err = w.s.Sweep(context.Background())
	check(t, err)
	if w.read("d/f") != "con" || w.read(left[0]) != "somebody's" {
		t.Errorf("the file holds %q, and the other one %q", w.read("d/f"), w.read(left[0]))
	}
}
