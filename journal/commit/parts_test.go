package commit

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// partsOf is a shadow of the file that holds nothing but what was written at these offsets.
func (w *world) partsOf(name string, writes map[int64]string) (*Shadow, *disk.Version, journal.Parts, error) {
	base, v := openFile(w.t, w.path(name), os.O_RDONLY), w.version(name)
	defer base.Close()
	sh, err := w.s.NewShadow(w.shadowOptions(name, base))
	if err != nil {
		return nil, nil, nil, err
	}
	var parts journal.Parts
	check(w.t, unix.Ftruncate(sh.FD(), v.Size))
	for _, at := range slices.Sorted(maps.Keys(writes)) {
		check(w.t, disk.WriteAll(sh.FD(), []byte(writes[at]), at))
		end := at + int64(len(writes[at]))
		parts = parts.Add(journal.Part{Start: min(at, v.Size), End: end})
	}
	return sh, v, parts, nil
}

// commitParts writes them into the file.
func (w *world) commitParts(name string, writes map[int64]string) error {
	target := openFile(w.t, w.path(name), os.O_RDWR)
	defer target.Close()
	sh, base, parts, err := w.partsOf(name, writes)
	if err != nil {
		return err
	}
	defer sh.Discard()
	o := w.publishOptions(name, base)
	o.Parts = parts
	_, err = sh.InPlace(int(target.Fd()), o)
	return err
}

// edits are what the tests write into a file of 3 MiB with a hole in it.
var edits = map[string]map[int64]string{
	"a line":             {5000: "a line\n"},
	"the first byte":     {0: "#"},
	"the last byte":      {3<<20 - 1: "#"},
	"many":               {1: "1", 4000: strings.Repeat("x", 9000), 1 << 20: "in the hole", 2<<20 + 17: "17"},
	"at the end":         {3 << 20: "longer"},
	"behind the end":     {7: "7", 3<<20 + 10000: "after a gap"},
	"zeros":              {0: strings.Repeat("\x00", 8192), 1<<20 + 5: strings.Repeat("\x00", 5000)},
	"all of it and more": {0: strings.Repeat("new", 1<<20+9)},
}

// writeHoled writes the file, and returns what it holds.
func (w *world) writeHoled(name string) []byte {
	w.write(name, strings.Repeat("old content\n", 60000)) // less than 1 MiB
	f := openFile(w.t, w.path(name), os.O_RDWR)
	defer f.Close()
	check(w.t, disk.WriteAll(int(f.Fd()), bytes.Repeat([]byte("more of it\n"), 1<<20/11), 2<<20))
	check(w.t, f.Truncate(3<<20))
	return []byte(w.read(name))
}

func edited(old []byte, writes map[int64]string) string {
	b := slices.Clone(old)
	for at, s := range writes {
		if need := int(at) + len(s) - len(b); need > 0 {
			b = append(b, make([]byte, need)...)
		}
		copy(b[at:], s)
	}
	return string(b)
}

func TestPartsInPlace(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for what, writes := range edits {
			old := w.writeHoled("f")
			before := w.stat("f")
			check(t, w.commitParts("f", writes))
			if got := w.read("f"); got != edited(old, writes) {
				t.Errorf("%s: another content", what)
			}
			after := w.stat("f")
			if after.Ino != before.Ino {
				t.Errorf("%s: another inode", what)
			}
			if what == "a line" && after.Blocks > before.Blocks+64 {
				t.Errorf("%s: the hole is gone: %d blocks, then %d", what, before.Blocks, after.Blocks)
			}
			w.checkNothingLeft()
		}
	})
}

// A shadow with parts gets the rest, and is the file that a whole one would be.
func TestFillAroundParts(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for what, writes := range edits {
			old := w.writeHoled("f")
			check(t, os.Chmod(w.path("f"), 0o4755))
			sh, base, parts, err := w.partsOf("f", writes)
			check(t, err)
			check(t, unix.Fchmod(sh.FD(), 0o4755))
			before := statFD(t, sh.FD())
			b := openFile(t, w.path("f"), os.O_RDONLY)
			check(t, sh.FillAround(int(b.Fd()), parts))
			check(t, b.Close())
			after := statFD(t, sh.FD())
			if after.Mtim != before.Mtim || after.Mode != before.Mode {
				t.Errorf("%s: time or mode have changed: %v %o, %v %o", what, before.Mtim, before.Mode, after.Mtim, after.Mode)
			}
			_, err = sh.Publish(w.publishOptions("f", base))
			check(t, err)
			check(t, sh.Discard())
			if got := w.read("f"); got != edited(old, writes) {
				t.Errorf("%s: another content", what)
			}
			w.checkNothingLeft()
		}
	})
}

// Applied is called once, however the commit goes, and when the target is not touched any
// more.
func TestAppliedIsCalledOnce(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for _, fails := range []string{"", "fsync", "link", "syncjournal", "copy", "unlink"} {
			w.writeHoled("f")
			target := openFile(t, w.path("f"), os.O_RDWR)
			sh, base, parts, err := w.partsOf("f", edits["a line"])
			check(t, err)
			calls, touched := 0, false
			w.s.disk.Fault = func(step string) error {
				touched = touched || calls > 0 && (step == "copy" || step == "truncate" || step == "fallocate")
				if step == fails {
					return errInjected
				}
				return nil
			}
			o := w.publishOptions("f", base)
			o.Parts, o.Applied = parts, func() { calls++ }
			_, err = sh.InPlace(int(target.Fd()), o)
			if (err != nil) != (fails != "") || calls != 1 || touched {
				t.Errorf("%q fails: %v, called %d times, touched after it: %v", fails, err, calls, touched)
			}
			w.s.disk.Fault = nil
			check(t, sh.Discard())
			if err != nil {
				_, err = w.s.Recover()
				check(t, err)
			}
			w.checkNothingLeft()
		}
	})
}

// The power fails before each step of a commit in place, and after it: the file has the old
// content or the new, and the new one as soon as the commit has returned.
func TestPowerCutInPlace(t *testing.T) {
	shelf := filesystems["xfs"]
	if shelf == "" {
		t.Skip("no filesystem with clones")
	}
	for _, d := range poweredDisks {
		t.Run(d.String(), func(t *testing.T) {
			image, at := d.make(t, shelf)
			w := newWorld(t, at)
			for _, what := range []string{"many", "behind the end", "all of it and more"} {
				old := string(w.writeHoled("f"))
				check(t, unix.Syncfs(int(w.dir.Fd())))
				updated := edited([]byte(old), edits[what])
				c := &cuts{t: t, image: image + "-" + what, w: w}
				check(t, os.Link(image, c.image))
				w.s.disk.Fault = c.before
				check(t, w.commitParts("f", edits[what]))
				c.end()
				c.each(d, func(step string, after *booted) {
					if got := after.read("f"); got != updated && (got != old || step == "") {
						t.Errorf("%s, before %q: neither old nor new", what, step)
					}
				})
			}
		})
	}
}
