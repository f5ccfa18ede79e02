package commit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// fsyncDir is fsync(2) of a directory.
func (w *world) fsyncDir(name string) error {
	dir := openFile(w.t, w.path(name), os.O_RDONLY)
	defer dir.Close()
	return w.s.FsyncDir(int(dir.Fd()))
}

// made is d/f as its program writes and syncs it, before the close.
func (w *world) made() *Shadow {
	w.t.Helper()
	sh, err := w.s.NewShadow(w.shadowOptions("d/f", nil))
	check(w.t, err)
	w.leftOpen(sh)
	check(w.t, disk.WriteAll(sh.FD(), []byte("new"), 0))
	if !w.syncAs(sh, true) {
		w.t.Fatal("not synced")
	}
	return sh
}

// closed is the close.
func (w *world) closed(sh *Shadow) {
	w.t.Helper()
	o := w.publishOptions("d/f", nil)
	o.Durability = Auto
	_, err := sh.Publish(o)
	check(w.t, err)
}

// waits reports whether the sync of d waits for the disk.
func (w *world) waits() bool {
	w.t.Helper()
	w.steps = nil
	check(w.t, w.fsyncDir("d"))
	return slices.Contains(w.steps, "fsync")
}

// The sync of a directory in which a file was made and synced, and nothing else was done,
// waits for nothing, where the disk keeps the order and the change times tell.
func TestDirectoryOfASyncedFileIsOnDisk(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		check(t, os.Mkdir(w.path("d"), 0o755))
		w.closed(w.made())
		if got, want := !w.waits(), w.s.disk.KeepsOrder(uint64(w.stat(".").Dev)) && w.s.disk.TellsChanges(); got != want {
			t.Errorf("waits for nothing: %v, want %v", got, want)
		}
		check(t, os.Remove(w.path("d/f")))
		if !w.waits() {
			t.Error("what was done afterwards is not waited for")
		}
	})
}

// Whatever else was done to the directory is waited for, and the clock of file times may
// have stood still meanwhile.
func TestDirectoryIsSyncedForWhateverElseWasDone(t *testing.T) {
	at := map[string]func(w *world, do func()) (sh *Shadow){
		"before the close": func(w *world, do func()) *Shadow { sh := w.made(); do(); w.closed(sh); return sh },
		"after the close":  func(w *world, do func()) *Shadow { sh := w.made(); w.closed(sh); do(); return sh },
		"during the link": func(w *world, do func()) *Shadow {
			w.atStep("link", func() { defer w.s.Change()(); do() })
			sh := w.made()
			w.closed(sh)
			return sh
		},
		"during the sync": func(w *world, do func()) *Shadow {
			w.atStep("fsync", do)
			sh := w.made()
			w.closed(sh)
			return sh
		},
		"during the rename": func(w *world, do func()) *Shadow {
			sh := w.made()
			w.atStep("rename", func() { defer w.s.Change()(); do() })
			w.closed(sh)
			return sh
		},
	}
	whats := map[string]func(w *world) error{
		"a name made":    func(w *world) error { return os.Mkdir(w.path("d/dir"), 0o755) },
		"a name gone":    func(w *world) error { return os.Remove(w.path("d/other")) },
		"another mode":   func(w *world) error { return os.Chmod(w.path("d"), 0o700) },
		"another time":   func(w *world) error { return os.Chtimes(w.path("d"), time.Now(), time.Unix(1e9, 0)) },
		"the same again": func(w *world) error { return os.Chmod(w.path("d"), 0o755) },
	}
	w := newWorld(t, orderedRoot(t))
	for when, order := range at {
		for what, do := range whats {
			t.Run(what+" "+when, func(t *testing.T) {
				w.t = t
				check(t, os.RemoveAll(w.path("d")))
				w.write("d/other", "")
				check(t, w.fsyncDir("d"))
				sh := order(w, func() { check(t, do(w)) })
				if !w.waits() {
					t.Error("it is not waited for")
				}
				check(t, sh.Discard())
			})
		}
	}
}

// orderedRoot is a data root on ext4, or else where the tests are.
func orderedRoot(t *testing.T) string {
	t.Helper()
	at := filesystems["ext4"]
	if at == "" {
		t.Skip("no ext4")
	}
	root, err := os.MkdirTemp(at, "root-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	return root
}

// atStep does something once, before a step.
func (w *world) atStep(at string, do func()) {
	note := w.s.disk.Fault
	w.s.disk.Fault = func(step string) error {
		if step == at {
			w.s.disk.Fault = note
			do()
		}
		return note(step)
	}
}

// Without all that it stands on, the sync of the directory is one.
func TestDirectoryIsSyncedWithoutARecord(t *testing.T) {
	ways := map[string]func(w *world){
		"not synced": func(w *world) {
			sh, err := w.s.NewShadow(w.shadowOptions("d/f", nil))
			check(w.t, err)
			a, err := sh.Announce(SyncOptions{Dir: w.openDir("d"), DirPath: "d", Name: "f", Appears: true})
			check(w.t, err)
			check(w.t, a.WriteBack(sh.FD()))
			check(w.t, sh.Secure(SyncOptions{Dir: w.openDir("d"), DirPath: "d", Name: "f", Appears: true}, a))
			w.closed(sh)
		},
		"written after the sync": func(w *world) {
			sh := w.made()
			check(w.t, disk.WriteAll(sh.FD(), []byte("more"), 3))
			w.closed(sh)
		},
		"written over after the sync": func(w *world) {
			sh := w.made()
			check(w.t, disk.WriteAll(sh.FD(), []byte("N"), 0))
			w.closed(sh)
		},
		"written during the sync": func(w *world) {
			w.atStep("fsync", func() {
				names, err := filepath.Glob(w.path("d/" + disk.ReservedPrefix + "*"))
				check(w.t, err)
				for _, name := range names {
					check(w.t, os.Truncate(name, 1))
				}
			})
			w.closed(w.made())
		},
		"of another mode after the sync": func(w *world) {
			sh := w.made()
			check(w.t, unix.Fchmod(sh.FD(), 0o640))
			w.closed(sh)
		},
		"another name": func(w *world) {
			sh := w.made()
			o := w.publishOptions("d/g", nil)
			o.Durability = Auto
			_, err := sh.Publish(o)
			check(w.t, err)
		},
		"failed before": func(w *world) {
			w.closed(w.made())
			stop := w.failing("fsync", unix.EIO)
			if w.settleAll() == nil {
				w.t.Error("a sync that fails is no error")
			}
			stop()
			st := w.stat("d")
			if w.s.Lost(disk.InodeOf(&st)) == nil {
				w.t.Error("the directory could not be synced, and nobody is told")
			}
		},
		"another record": func(w *world) {
			sh := w.made()
			check(w.t, sh.Secure(SyncOptions{Dir: w.openDir("d"), DirPath: "d", Name: "f", Appears: true}, nil))
			w.closed(sh)
		},
		"the clock ticks": func(w *world) {
			w.s.disk.SetTellsChanges(false)
			w.closed(w.made())
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, orderedRoot(t))
			check(t, os.Mkdir(w.path("d"), 0o755))
			way(w)
			if !w.waits() {
				t.Error("it is not waited for")
			}
		})
	}
}

// A name that a file has lost is free on the disk, too, when another file was synced later
// in that directory: what is made under it replaces nothing.
func TestNamesAreGoneWithALaterSync(t *testing.T) {
	w := newWorld(t, orderedRoot(t))
	w.write("d/f", "old")
	w.write("d/g", "old")
	dir := w.openDir("d")
	st := w.stat("d")
	check(t, os.Remove(w.path("d/f")))
	w.s.NameGone(disk.InodeOf(&st), "f")
	w.atStep("fsync", func() {
		check(t, os.Remove(w.path("d/g")))
		w.s.NameGone(disk.InodeOf(&st), "g")
	})
	sh := w.made()
	if w.isGoing(dir, "f") || !w.isGoing(dir, "g") {
		t.Errorf("f: %v, g, which was removed later: %v", w.isGoing(dir, "f"), w.isGoing(dir, "g"))
	}
	check(t, sh.Discard())
}

// The power fails before each step of a program's way to a file that it knows to be on
// disk, and after it. Others commit the filesystem's journal as early as that can happen,
// or nobody does.
func TestPowerCutAtEveryStepOfADurableFile(t *testing.T) {
	shelf := cloneShelf(t)
	for _, d := range poweredDisks {
		for _, others := range []bool{true, false} {
			for _, replaced := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s others %v replaced %v", d, others, replaced), func(t *testing.T) {
					image, at := d.make(t, shelf)
					w := newWorld(t, at)
					w.write("d/f", "old")
					check(t, unix.Syncfs(int(w.dir.Fd())))
					c := &cuts{t: t, image: image, w: w, alone: !others}
					st := w.stat("d")
					check(t, os.Remove(w.path("d/f")))
					if replaced {
						w.s.NameGone(disk.InodeOf(&st), "f")
					} else {
						check(t, w.fsyncDir("d"))
					}
					check(t, os.Mkdir(w.path("d/before"), 0o755))
					w.s.disk.Fault = c.before
					w.closed(w.made())
					check(t, w.fsyncDir("d"))
					c.end()
					waited := slices.Contains(c.steps[slices.Index(c.steps, "rename"):], "fsync")
					if d.order && waited == w.s.disk.TellsChanges() {
						t.Errorf("the sync of the directory waits: %v", waited)
					}
					c.each(d, func(step string, after *booted) {
						got, err := os.ReadFile(after.path("d/f"))
						_, made := os.Stat(after.path("d/before"))
						if string(got) != "new" && (err == nil && (string(got) != "old" || !replaced) || step == "") || step == "" && made != nil {
							t.Errorf("before %q: %q, %v, %v", step, got, err, made)
						}
					})
				})
			}
		}
	}
}
