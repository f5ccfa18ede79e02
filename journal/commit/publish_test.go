package commit

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

func TestPublishReplaces(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "old")
		reader := openFile(t, w.path("d/f"), os.O_RDONLY)
		sh, base := w.shadowOf("d/f")
		check(t, disk.WriteAll(sh.FD(), []byte("newer"), 0))
		v, err := sh.Publish(w.publishOptions("d/f", base))
		check(t, err)
		if got := *w.version("d/f"); got != v {
			t.Errorf("Publish returned %+v, the file is %+v", v, got)
		}
		check(t, sh.Discard())
		check(t, sh.Discard())
		if got := w.read("d/f"); got != "newer" {
			t.Errorf("content %q", got)
		}
		b := make([]byte, 10)
		if n, _ := reader.ReadAt(b, 0); string(b[:n]) != "old" {
			t.Errorf("an open reader sees %q", b[:n])
		}
		w.checkNothingLeft()
	})
}

func TestPublishNew(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		sh, err := w.s.NewShadow(w.shadowOptions("f", nil))
		check(t, err)
		other, err := w.s.NewShadow(w.shadowOptions("f", nil))
		check(t, err)
		check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		_, err = sh.Publish(w.publishOptions("f", nil))
		check(t, err)
		if i := slices.Index(w.steps, "begin"); i >= 0 && !disk.ForgetsUnnamed(sh.FD()) {
			t.Error("a new name needs no intent, and no hidden name")
		}
		_, err = other.Publish(w.publishOptions("f", nil))
		var conflict *ConflictError
		if !errors.As(err, &conflict) || !errors.Is(err, ErrConflict) {
			t.Errorf("publishing a name that exists: %v", err)
		}
		if got := w.read("f"); got != "new" {
			t.Errorf("content %q", got)
		}
		check(t, errors.Join(sh.Discard(), other.Discard()))
		w.checkNothingLeft()
	})
}

// The name appears between the check and the last step, which must decide by
// itself.
func TestPublishNewLosesTheRace(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for last, refused := range map[string]string{"link": "", "rename": "tmpfile"} {
			os.Remove(w.path("f"))
			w.s.disk.Fault = func(step string) error {
				switch step {
				case refused:
					return unix.EOPNOTSUPP
				case last:
					w.write("f", "theirs")
				}
				return nil
			}
			sh, err := w.s.NewShadow(w.shadowOptions("f", nil))
			check(t, err)
			if _, err := sh.Publish(w.publishOptions("f", nil)); !errors.Is(err, ErrConflict) {
				t.Errorf("error %v", err)
			}
			if got := w.read("f"); got != "theirs" {
				t.Errorf("content %q", got)
			}
			check(t, sh.Discard())
			w.checkNothingLeft()
		}
	})
}

func TestPublishConflicts(t *testing.T) {
	changes := map[string]func(w *world){
		"written":  func(w *world) { w.write("f", "OLD") },
		"replaced": func(w *world) { w.write("g", "old"); check(w.t, os.Rename(w.path("g"), w.path("f"))) },
		"removed":  func(w *world) { check(w.t, os.Remove(w.path("f"))) },
		"chmod":    func(w *world) { check(w.t, os.Chmod(w.path("f"), 0o600)) },
		"linked":   func(w *world) { check(w.t, os.Link(w.path("f"), w.path("g"))) },
	}
	eachFS(t, func(t *testing.T, w *world) {
		for name, change := range changes {
			for _, when := range []string{"before", "put", "link", "exchange"} { // the last steps before the checks
				if when == "exchange" && (name == "chmod" || name == "linked") {
					continue // the exchange itself changes the ctime
				}
				t.Run(name+"/"+when, func(t *testing.T) {
					os.Remove(w.path("g"))
					w.write("f", "old")
					sh, base := w.shadowOf("f")
					check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
					fired := when == "before"
					if fired {
						change(w)
					}
					w.s.disk.Fault = func(step string) error {
						if (step == when || when == "put" && step == putStep(sh)) && !fired {
							fired = true
							change(w)
						}
						return nil
					}
					_, err := sh.Publish(w.publishOptions("f", base))
					if !fired || !errors.Is(err, ErrConflict) {
						t.Errorf("fired %v, error %v", fired, err)
					}
					if b, err := os.ReadFile(w.path("f")); err == nil && strings.ToLower(string(b)) != "old" {
						t.Errorf("the file has become %q", b)
					}
					// Its bytes can still be kept.
					id, err := sh.Reject(nil)
					check(t, err)
					if got := w.read(".latchfs/rejected/" + id + "/content"); got != "new" {
						t.Errorf("kept %q", got)
					}
					check(t, sh.Discard())
					w.checkNothingLeft()
				})
			}
		}
	})
}

// After an error Publish can be tried again, with the hidden name in place.
func TestPublishAgain(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		sh, base := w.shadowOf("f")
		check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		w.s.disk.Fault = func(step string) error {
			if step == "exchange" {
				return unix.ENOSPC
			}
			return nil
		}
		if _, err := sh.Publish(w.publishOptions("f", base)); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("error %v", err)
		}
		w.s.disk.Fault = nil
		_, err := sh.Publish(w.publishOptions("f", base))
		check(t, err)
		if got := w.read("f"); got != "new" {
			t.Errorf("content %q", got)
		}
		check(t, sh.Discard())
		w.checkNothingLeft()
	})
}

func TestStepsOfEachDurability(t *testing.T) {
	steps := map[Durability]string{
		Auto:    "fsync begin link exchange unlink done syncdir",
		Full:    "fsync begin link exchange unlink done syncdir",
		"":      "fsync begin link exchange unlink done syncdir",
		Ordered: "fsync begin link exchange unlink done",
		Lazy:    "begin link symlink exchange",
	}
	eachFS(t, func(t *testing.T, w *world) {
		for durability, want := range steps {
			w.write("f", "old")
			sh, base := w.shadowOf("f")
			check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
			w.steps = nil
			o := w.publishOptions("f", base)
			o.Durability = durability
			_, err := sh.Publish(o)
			check(t, err)
			got := withoutFirst(w.steps)
			if disk.ForgetsUnnamed(sh.FD()) { // there the name comes before the sync
				want = strings.Replace(want, "fsync begin link", "begin link fsync begin done", 1)
			}
			want = strings.Replace(strings.Replace(want, "fsync", putStep(sh), 1), "symlink", markStep(sh), 1)
			if got != want {
				t.Errorf("%q: %s, want %s", durability, got, want)
			}
			check(t, sh.Discard())
			w.steps = nil
			check(t, w.settleAll())
			if got := strings.Join(w.steps, " "); durability == Lazy && got != "fsync unlink done unlink" {
				t.Errorf("settled by %s", got)
			}
		}
		w.write("g", "old")
		sh, base := w.shadowOf("g")
		check(t, disk.WriteAll(sh.FD(), []byte("longer than before"), 0))
		w.steps = nil
		target := openFile(t, w.path("g"), os.O_RDWR)
		_, err := sh.InPlace(int(target.Fd()), w.publishOptions("g", base))
		check(t, err)
		got := strings.Join(w.steps, " ")
		got = strings.Replace(got, "clone copy", "copy", 1) // where there are no reflinks
		got = strings.Replace(got, "clone", "copy", 1)
		want := "fsync begin link syncdir syncjournal fallocate copy truncate utimens fsync unlink done syncjournal"
		if disk.ForgetsUnnamed(int(target.Fd())) {
			want = strings.Replace(want, "fsync begin link", "begin link fsync begin done", 1)
		}
		if got != want {
			t.Errorf("in place: %s, want %s", got, want)
		}
	})
}

func TestWithoutUnnamedFiles(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		noTmpfile := func(step string) error {
			if step == "tmpfile" {
				return unix.EOPNOTSUPP
			}
			return nil
		}
		w.write("d/f", "old")
		w.s.disk.Fault = noTmpfile
		orphan, _ := w.shadowOf("d/f")
		if found := w.leftovers(); len(found) != 1 {
			t.Fatalf("named shadows: %q", found)
		}
		check(t, w.s.disk.Journal.Sync())
		_ = orphan // dies with the process
		recovered, _ := w.restart()
		if len(recovered.Undone) != 1 {
			t.Errorf("undone: %v", recovered.Undone)
		}
		w.checkNothingLeft()

		w.s.disk.Fault = noTmpfile
		sh, base := w.shadowOf("d/f")
		check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		_, err := sh.Publish(w.publishOptions("d/f", base))
		check(t, err)
		check(t, sh.Discard())
		fresh, err := w.s.NewShadow(w.shadowOptions("d/g", nil))
		check(t, err)
		late, err := w.s.NewShadow(w.shadowOptions("d/g", nil))
		check(t, err)
		_, err = fresh.Publish(w.publishOptions("d/g", nil))
		check(t, err)
		if _, err = late.Publish(w.publishOptions("d/g", nil)); !errors.Is(err, ErrConflict) {
			t.Errorf("error %v", err)
		}
		check(t, errors.Join(fresh.Discard(), late.Discard()))
		if got := w.read("d/f"); got != "new" {
			t.Errorf("content %q", got)
		}
		w.checkNothingLeft()
	})
}

func TestCloneIsIndependent(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		sh, base := w.shadowOf("f")
		check(t, disk.WriteAll(sh.FD(), []byte("one"), 0))
		v, err := sh.Publish(w.publishOptions("f", base))
		check(t, err)
		// A late writer keeps the published inode: a copy takes its place.
		c, err := sh.Clone(w.openDir("."))
		check(t, err)
		before := w.stat("f")
		_, err = c.Publish(w.publishOptions("f", &v))
		check(t, err)
		after := w.stat("f")
		if before.Ino == after.Ino || before.Mtim != after.Mtim || before.Mode != after.Mode || before.Size != after.Size {
			t.Errorf("before %+v, after %+v", before, after)
		}
		check(t, disk.WriteAll(sh.FD(), []byte("two"), 0))
		if got := w.read("f"); got != "one" {
			t.Errorf("a late write has reached the file: %q", got)
		}
		id, err := sh.Reject(map[string]any{"reason": "late"})
		check(t, err)
		if got := w.read(".latchfs/rejected/" + id + "/content"); got != "two" {
			t.Errorf("kept %q", got)
		}
		check(t, errors.Join(sh.Discard(), c.Discard()))
		w.checkNothingLeft()
	})
}

func TestReserved(t *testing.T) {
	for name, want := range map[string]bool{
		".latchfs": true, ".latchfs-": true, ".latchfs-x": true, ".latchfsx": false, "latchfs-": false, "": false,
	} {
		if got := disk.Reserved(name); got != want {
			t.Errorf("Reserved(%q) = %v", name, got)
		}
	}
	s := NewStore(-1, nil, nil)
	a, b := s.disk.ClaimName(), s.disk.ClaimName()
	if a == b || !disk.Generated(a) || !disk.Reserved(a) || disk.Generated(a+"0") || disk.Generated(a[:len(a)-1]+"X") {
		t.Errorf("names %q and %q", a, b)
	}
}

// Under Auto nobody waits for the disk who makes something new; who replaces something
// waits for what is new in the directory, too.
func TestAutoWaitsForWhatReplaces(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		publish := func(sh *Shadow, name string, base *disk.Version) string {
			t.Helper()
			check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
			w.steps = nil
			o := w.publishOptions(name, base)
			o.Durability = Auto
			_, err := sh.Publish(o)
			check(t, err)
			steps := withoutFirst(w.steps)
			check(t, sh.Discard())
			return steps
		}
		w.write("old", "old")
		for _, name := range []string{"a", "b"} {
			sh, err := w.s.NewShadow(w.shadowOptions(name, nil))
			check(t, err)
			if steps := publish(sh, name, nil); steps != markStep(sh)+" link" {
				t.Errorf("a new file: %s", steps)
			}
		}
		sh, base := w.shadowOf("old")
		put := putStep(sh)
		steps := publish(sh, "old", base)
		if !strings.HasPrefix(steps, put+" unlink "+put+" unlink ") || !strings.HasSuffix(steps, " syncdir") {
			t.Errorf("what replaces a version: %s", steps)
		}
		if n := w.s.lazies.Unsettled(); n != 0 {
			t.Errorf("%d commits are not on disk after one that is", n)
		}
		// Made anew, it replaces what was removed a moment ago.
		dir := w.stat(".")
		for _, want := range []string{putStep(sh) + " link syncdir", markStep(sh) + " link"} {
			check(t, os.Remove(w.path("old")))
			w.s.NameGone(disk.InodeOf(&dir), "old")
			if want == markStep(sh)+" link" {
				check(t, w.settleAll())
			}
			sh, err := w.s.NewShadow(w.shadowOptions("old", nil))
			check(t, err)
			if steps := publish(sh, "old", nil); steps != want && !disk.ForgetsUnnamed(int(w.dir.Fd())) {
				t.Errorf("a file that is made anew: %s, want %s", steps, want)
			}
		}
	})
}
