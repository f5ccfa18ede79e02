package commit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

const orphanName = disk.ReservedPrefix + "0123456789abcdef0123456789abcdef"

func TestSweep(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		deep := strings.Repeat("deep/", 400)
		orphans := []string{orphanName, "d/" + orphanName, deep + orphanName, "d/e/" + orphanName}
		for _, name := range orphans {
			w.write(name, "orphan")
		}
		spared := []string{
			"d/" + disk.ReservedPrefix + "mine", "d/" + orphanName + "0", "d/.latchfs-0123456789ABCDEF0123456789ABCDEF",
			"nested/.latchfs/journal", "nested/" + orphanName, "nested/below/" + orphanName, "d/f",
		}
		for _, name := range spared {
			w.write(name, "keep")
		}
		check(t, os.Mkdir(w.path("f/"), 0o755))
		outside := filepath.Join(filepath.Dir(w.root), "outside-"+filepath.Base(w.root))
		check(t, os.Mkdir(outside, 0o755))
		defer os.RemoveAll(outside)
		check(t, os.WriteFile(filepath.Join(outside, orphanName), nil, 0o644))
		check(t, os.Symlink(outside, w.path("link")))
		check(t, os.Mkdir(w.path("dir-"+orphanName), 0o755))
		if root(t) { // another mount below the root
			check(t, os.Mkdir(w.path("mnt"), 0o755))
			check(t, unix.Mount(outside, w.path("mnt"), "", unix.MS_BIND, ""))
			defer unix.Unmount(w.path("mnt"), unix.MNT_DETACH)
		}
		w.start() // after a crash
		living, err := w.s.NewShadow(ShadowOptions{Dir: w.openDir("."), Name: "x", Base: -1, UID: -1, GID: -1})
		check(t, err)
		defer living.Discard()

		report, err := w.s.Recover()
		check(t, err)
		if !report.SweepDue {
			t.Error("no sweep is due after a crash")
		}
		report, err = w.s.Sweep(context.Background())
		check(t, err)
		slices.Sort(orphans)
		slices.Sort(report.Removed)
		if !slices.Equal(report.Removed, orphans) {
			t.Errorf("removed %q, want %q", report.Removed, orphans)
		}
		for _, name := range append(spared, "link/"+orphanName) {
			if _, err := os.Stat(w.path(name)); err != nil {
				t.Error(err)
			}
		}
		check(t, w.j.Close())
		w.start()
		if report, err := w.s.Recover(); err != nil || report.SweepDue {
			t.Errorf("a sweep is due after a clean stop: %v", err)
		}
	})
}

func TestSweepThatIsCancelledStaysDue(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.start()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := w.s.Sweep(ctx); err == nil {
			t.Error("no error")
		}
		check(t, w.j.Close())
		w.start()
		if report, _ := w.s.Recover(); !report.SweepDue {
			t.Error("no sweep is due")
		}
	})
}

// Sweep runs beside sessions: it must take nothing from them.
func TestSweepBesideWork(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.s.disk.Fault = func(step string) error {
			if step == "tmpfile" {
				return unix.EOPNOTSUPP // named from the beginning: as exposed as can be
			}
			return nil
		}
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := w.s.Sweep(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
		var workers sync.WaitGroup
		for i := range 4 {
			name := fmt.Sprintf("d%d/f", i)
			w.write(name, "0")
			workers.Go(func() {
				for n := range 30 {
					base, err := os.Open(w.path(name))
					if err != nil {
						t.Error(err)
						return
					}
					var st unix.Stat_t
					unix.Fstat(int(base.Fd()), &st)
					v := disk.VersionOf(&st)
					dir, _ := os.Open(filepath.Dir(w.path(name)))
					o := PublishOptions{Dir: int(dir.Fd()), DirPath: filepath.Dir(name), Name: "f", Base: &v, Durability: Ordered}
					sh, err := w.s.NewShadow(ShadowOptions{Dir: o.Dir, DirPath: o.DirPath, Name: "f", Base: int(base.Fd())})
					if err == nil {
						err = disk.WriteAll(sh.FD(), fmt.Append(nil, n), 0)
					}
					if err == nil {
						_, err = sh.Publish(o)
					}
					if err == nil {
						err = sh.Discard()
					}
					base.Close()
					dir.Close()
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
		cancel()
		wg.Wait()
		w.checkNothingLeft()
	})
}

func TestRemoveOrphan(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "old and longer")
		w.write("d/"+orphanName, "")
		w.halfWritten("d/f")
		w.s.disk.Fault = nil
		dir := w.openDir("d")
		check(t, w.s.RemoveOrphan(dir, orphanName))
		redo := w.leftovers()
		if len(redo) != 1 {
			t.Fatalf("%q", redo)
		}
		for range 2 { // in this run and after a crash
			if err := w.s.RemoveOrphan(dir, filepath.Base(redo[0])); err == nil {
				t.Error("removed a shadow that recovery needs")
			}
			if err := w.s.RemoveOrphan(dir, "f"); err == nil {
				t.Error("removed a user's file")
			}
			w.start()
		}
	})
}
