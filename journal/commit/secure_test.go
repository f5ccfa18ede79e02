package commit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// syncAs makes the shadow's content durable as an fsync does, and reports whether that is
// acknowledged.
func (w *world) syncAs(sh *Shadow, appears bool) bool {
	o := SyncOptions{Dir: w.openDir("d"), DirPath: "d", Name: "f", Token: 1, Appears: appears}
	a, err := sh.Announce(o)
	if err == nil && a != nil {
		err = a.WriteBack(sh.FD())
	} else if err == nil {
		err = w.s.WriteBack(sh.FD())
	}
	if err != nil {
		_ = a.Drop()
		return false
	}
	if sh.Secure(o, a) != nil {
		return false
	}
	as := sh.Stamped()
	if w.s.SyncSecured(sh.FD(), sh.Recorded()) != nil {
		return false
	}
	sh.SyncDone(sh.Recorded(), as)
	return true
}

// leftOpen gives back, after the test, the descriptors of a shadow with which its daemon
// has died.
func (w *world) leftOpen(sh *Shadow) {
	w.t.Cleanup(func() {
		if sh.name.Stands() {
			unix.Close(sh.name.Dir())
		}
		if sh.fd >= 0 {
			unix.Close(sh.fd)
		}
	})
}

// synced writes d/f anew and syncs that; goesOn is what the program does then, which does
// not come to the close before the daemon dies if it is nil.
func synced(goesOn func(w *world, sh *Shadow, base *disk.Version)) func(w *world) bool {
	return func(w *world) bool {
		sh, base := w.begin()
		if sh == nil {
			return false
		}
		w.leftOpen(sh)
		check(w.t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		acked := w.syncAs(sh, false)
		if acked && goesOn != nil {
			goesOn(w, sh, base)
		}
		return acked
	}
}

// syncedNew does the same with a new file.
func syncedNew(goesOn func(w *world, sh *Shadow)) func(w *world) bool {
	return func(w *world) bool {
		sh, err := w.s.NewShadow(w.shadowOptions("d/f", nil))
		if err != nil {
			return false
		}
		w.leftOpen(sh)
		check(w.t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		acked := w.syncAs(sh, true)
		if acked && goesOn != nil {
			goesOn(w, sh)
		}
		return acked
	}
}

func removeF(w *world) { check(w.t, os.Remove(w.path("d/f"))) }

func publishAs(d Durability) func(w *world, sh *Shadow) {
	return func(w *world, sh *Shadow) {
		o := w.publishOptions("d/f", nil)
		o.Durability = d
		_, _ = sh.Publish(o)
		_ = sh.Discard()
	}
}

// durably goes on as a program does that has made a file, and wants to know.
func durably(w *world, sh *Shadow) {
	publishAs(Auto)(w, sh)
	_ = w.fsyncDir("d")
}

func replaceSynced(d Durability) func(w *world, sh *Shadow, base *disk.Version) {
	return func(w *world, sh *Shadow, base *disk.Version) {
		o := w.publishOptions("d/f", base)
		o.Durability = d
		_, _ = sh.Publish(o)
		_ = sh.Discard()
	}
}

func inPlaceSynced(w *world, sh *Shadow, base *disk.Version) {
	target := openFile(w.t, w.path("d/f"), os.O_RDWR)
	_, _ = sh.InPlace(int(target.Fd()), w.publishOptions("d/f", base))
	_ = sh.Discard()
}

func rejectSynced(w *world, sh *Shadow, _ *disk.Version) {
	_, _ = sh.Reject(map[string]any{"reason": "test"})
	_ = sh.Discard()
}

// prepareSynced makes the shadow a part of a transaction, which is not decided.
func prepareSynced(w *world, sh *Shadow, base *disk.Version) {
	_ = w.s.NewTxn(7).Put(sh, w.publishOptions("d/f", base))
}

func commitSynced(w *world, sh *Shadow, base *disk.Version) {
	txn := w.s.NewTxn(7)
	if txn.Put(sh, w.publishOptions("d/f", base)) == nil {
		_ = txn.Commit()
	}
	_ = sh.Discard()
}

var syncedScenarios = map[string]scenario{
	"synced":                         {work: synced(nil)},
	"synced, named":                  {work: without("tmpfile", unix.EOPNOTSUPP, synced(nil))},
	"synced and replaced":            {work: synced(replaceSynced(Full))},
	"synced and replaced, named":     {work: without("tmpfile", unix.EOPNOTSUPP, synced(replaceSynced(Full)))},
	"synced and replaced, ordered":   {work: synced(replaceSynced(Ordered))},
	"synced and replaced, lazily":    {work: synced(replaceSynced(Lazy))},
	"synced, no exchange":            {work: without("exchange", unix.EINVAL, synced(replaceSynced(Full)))},
	"synced and in place":            {work: synced(inPlaceSynced)},
	"synced and rejected":            {work: synced(rejectSynced)},
	"synced and rejected, far":       {work: without("rename", unix.EXDEV, synced(rejectSynced))},
	"synced and prepared":            {work: synced(prepareSynced)},
	"synced and in a transaction":    {work: synced(commitSynced)},
	"synced and renamed":             {work: synced(renameSynced)},
	"synced, new":                    {setup: removeF, work: syncedNew(nil), mayBe: []string{"", "new"}},
	"synced, new, named":             {setup: removeF, work: without("tmpfile", unix.EOPNOTSUPP, syncedNew(nil)), mayBe: []string{"", "new"}},
	"synced, new and published":      {setup: removeF, work: syncedNew(publishAs(Full)), mayBe: []string{"", "new"}},
	"synced, new and soon on disk":   {setup: removeF, work: syncedNew(publishAs(Auto)), mayBe: []string{"", "new"}},
	"synced, new, and its directory": {setup: removeF, work: syncedNew(durably), mayBe: []string{"", "new"}},
	"synced, new and published, or":  {setup: removeF, work: syncedNew(publishAs(Ordered)), mayBe: []string{"", "new"}},
}

// keptContents are the contents under rejected/.
func (w *world) keptContents() (all []string) {
	w.t.Helper()
	kept, err := filepath.Glob(w.path(".latchfs/rejected/*/content"))
	check(w.t, err)
	for _, path := range kept {
		b, err := os.ReadFile(path)
		check(w.t, err)
		all = append(all, string(b))
	}
	return all
}

// checkSynced: the bytes are in the file, or, if that was not new, kept aside.
func (w *world) checkSynced(sc scenario, acked bool) {
	w.t.Helper()
	w.checkContent(sc, acked && sc.setup != nil)
	b, _ := os.ReadFile(w.path("d/f"))
	if acked && string(b) != "new" && !slices.Contains(w.keptContents(), "new") {
		w.t.Errorf("the file holds %q, and %q is kept aside", b, w.keptContents())
	}
}

// The daemon dies at each step of an fsync, and of what comes after it.
func TestSyncedBytesSurviveACrashAtEveryStep(t *testing.T) {
	eachStopOf(t, everywhere, syncedScenarios, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		recovered, _ := w.restart()
		w.checkSynced(sc, acked)
		if !strings.Contains(t.Name(), "far") { // a copy may be half made, and be there twice
			w.checkRejected()
		}
		w.checkNothingLeft()
		for _, k := range recovered.Synced {
			if k.Path != "d/f" && (k.Path != "e/f" || !strings.Contains(t.Name(), "renamed")) {
				t.Errorf("recovered %+v", k)
			}
		}
		check(t, w.j.Close())
		w.start()
		if !w.j.Clean() {
			t.Error("a clean stop after recovery is not clean")
		}
	})
}

// The directory is copied before it is mounted again, as from a disk that is dying: no inode is
// what the journal says. Nothing that was synced is taken for something else.
func TestSyncedBytesSurviveACopy(t *testing.T) {
	eachStopOf(t, inTurn, syncedScenarios, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		root := w.root + "-copy"
		defer os.RemoveAll(root)
		if out, err := exec.Command("cp", "-a", w.root, root).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c := &world{t: t, root: root}
		c.dir, c.state = openFile(t, root, os.O_RDONLY), openFile(t, filepath.Join(root, disk.StateDirName), os.O_RDONLY)
		c.restart()
		c.checkSynced(sc, acked)
		c.checkNothingLeft()
	})
}

// A crash may hit the recovery as well.
func TestSyncedBytesSurviveACrashOfTheRecovery(t *testing.T) {
	eachStopOf(t, inTurn, syncedScenarios, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		for n := 1; ; n++ {
			w.start()
			w.s.rejects.NoBallast()
			reached := w.failAt(n, true)
			w.s.Recover()
			if !reached() {
				break
			}
		}
		w.restart()
		w.checkSynced(sc, acked)
		w.checkNothingLeft()
	})
}

// One step fails after the fsync, and the daemon lives on.
func TestSyncedBytesSurviveAnError(t *testing.T) {
	eachStopOf(t, everywhere, syncedScenarios, false, func(t *testing.T, w *world, sc scenario, _ bool) {
		w.s.disk.Fault = nil
		w.s.disk.Room = nil
		_, err := w.s.Recover()
		check(t, err)
		w.checkContent(sc, false)
		w.checkRejected()
	})
}

// The directory of a shadow was renamed, and another one has its name.
func TestSyncedBytesAreLookedFor(t *testing.T) {
	for _, isNew := range []bool{false, true} {
		eachFS(t, func(t *testing.T, w *world) {
			w.write("d/f", "old")
			work := synced(nil)
			if isNew {
				removeF(w)
				work = syncedNew(nil)
			}
			if !work(w) {
				t.Fatal("the sync has failed")
			}
			check(t, os.Rename(w.path("d"), w.path("e")))
			check(t, os.Mkdir(w.path("d"), 0o755))
			recovered, _ := w.restart()
			w.checkNothingLeft()
			switch got := w.keptContents(); {
			case len(recovered.Synced) != 1 || recovered.Synced[0].Path != "e/f":
				t.Errorf("recovered %+v", recovered)
			case isNew && (w.read("e/f") != "new" || len(got) > 0):
				t.Errorf("e/f holds %q, and %q is kept", w.read("e/f"), got)
			case !isNew && (w.read("e/f") != "old" || !slices.Equal(got, []string{"new"})):
				t.Errorf("e/f holds %q, and %q is kept", w.read("e/f"), got)
			}
		})
	}
}

// A new file whose name is taken is kept aside, readable for those who might read it.
func TestSyncedNewFileWhoseNameIsTaken(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "theirs")
		if !syncedNew(nil)(w) {
			t.Fatal("the sync has failed")
		}
		recovered, _ := w.restart()
		if w.read("d/f") != "theirs" || len(recovered.Synced) != 1 || recovered.Synced[0].Kept == "" {
			t.Fatalf("recovered %+v", recovered)
		}
		at := ".latchfs/rejected/" + recovered.Synced[0].Kept
		meta := w.read(at + "/meta.json")
		for _, want := range []string{`"path": "d/f"`, `"mode": "0644"`, "latchfs ended before the file was closed"} {
			if !strings.Contains(meta, want) {
				t.Errorf("meta.json lacks %s:\n%s", want, meta)
			}
		}
		if st := w.stat(at + "/content"); st.Mode&0o777 != 0o600 || w.read(at+"/content") != "new" {
			t.Errorf("mode %o", st.Mode)
		}
	})
}

// The writer of a new file has outlived the daemon, and goes on writing the inode that it has
// open, as it can with passthrough: the file is what it had written before. Where nobody has the
// inode open to write, it is the file.
func TestSyncedNewFileOfALivingWriter(t *testing.T) {
	for _, lives := range []bool{false, true} {
		eachFS(t, func(t *testing.T, w *world) {
			check(t, os.Mkdir(w.path("d"), 0o755))
			var writer *Shadow
			var was unix.Stat_t
			writes := syncedNew(func(w *world, sh *Shadow) {
				writer = sh
				check(t, unix.Fsetxattr(sh.FD(), "user.latchfs", []byte("kept"), 0))
				check(t, unix.Fchmod(sh.FD(), 0o640))
				check(t, disk.Futimens(sh.FD(), [2]unix.Timespec{{Sec: 1}, {Sec: 2}}))
				check(t, unix.Fstat(sh.FD(), &was))
			})
			if !writes(w) {
				t.Fatal("the sync has failed")
			}
			if !lives {
				check(t, unix.Close(writer.fd))
				writer.fd = -1
			}
			recovered, _ := w.restart()
			if len(recovered.Synced) != 1 || recovered.Synced[0].Kept != "" {
				t.Errorf("recovered %+v", recovered)
			}
			if lives {
				check(t, disk.WriteAll(writer.FD(), []byte("late"), 0))
			}
			if got := w.read("d/f"); got != "new" {
				t.Errorf("the file holds %q", got)
			}
			is := w.stat("d/f")
			if (is.Ino == was.Ino) == lives {
				t.Errorf("inode %d, the writer's is %d", is.Ino, was.Ino)
			}
			if is.Mode != was.Mode || is.Uid != was.Uid || is.Gid != was.Gid || is.Mtim != was.Mtim {
				t.Errorf("it is %+v, and was %+v", is, was)
			}
			value := make([]byte, 8)
			if n, err := unix.Getxattr(w.path("d/f"), "user.latchfs", value); err != nil || string(value[:n]) != "kept" {
				t.Errorf("its attribute is %q, %v", value[:max(n, 0)], err)
			}
			w.checkNothingLeft()
		})
	}
}

// What the writer's family has taken away is not brought back.
func TestUnsecured(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		check(t, os.Mkdir(w.path("d"), 0o755))
		var steps []string
		unsecures := syncedNew(func(w *world, sh *Shadow) {
			w.s.disk.Fault = func(step string) error { steps = append(steps, step); return nil }
			check(w.t, sh.Unsecure())
		})
		if !unsecures(w) {
			t.Fatal("the sync has failed")
		}
		recovered, _ := w.restart()
		if kept := w.keptContents(); len(kept)+len(recovered.Synced) > 0 || len(recovered.Undone) != 1 {
			t.Errorf("recovered %+v, kept %q", recovered, kept)
		}
		if want := []string{"begin", "done", "syncjournal"}; !slices.Equal(steps, want) {
			t.Errorf("done in the steps %q, want %q: a cut of the power could bring it back", steps, want)
		}
		w.checkNothingLeft()
	})
}

// The directory of what the writer's family has taken away is empty at once, and a recovery
// finds nothing there. What was written through the descriptor goes with the shadow.
func TestUnnamed(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		check(t, os.Mkdir(w.path("d"), 0o755))
		unnames := syncedNew(func(w *world, sh *Shadow) {
			check(w.t, sh.Unname())
			check(w.t, disk.WriteAll(sh.FD(), []byte("more"), 0))
			check(w.t, sh.Unname())
			check(w.t, os.Remove(w.path("d")))
		})
		if !unnames(w) {
			t.Fatal("the sync has failed")
		}
		recovered, _ := w.restart()
		if kept := w.keptContents(); len(kept)+len(recovered.Synced)+len(recovered.Undone) > 0 {
			t.Errorf("recovered %+v, kept %q", recovered, kept)
		}
		w.checkNothingLeft()
	})
}

// TestPowerCutAfterASync cuts the power when fsyncs were acknowledged: of files that were
// written still, closed, rejected, and of those that others' syncs come after.
func TestPowerCutAfterASync(t *testing.T) {
	const files = 12
	old, content := strings.Repeat("old\n", 2000), strings.Repeat("new\n", 3000)
	ways := map[string]func(w *world, sh *Shadow, o PublishOptions) error{
		"open": nil,
		"closed": func(_ *world, sh *Shadow, o PublishOptions) error {
			o.Durability = Auto
			_, err := sh.Publish(o)
			return err
		},
		"ordered": func(_ *world, sh *Shadow, o PublishOptions) error {
			o.Durability = Ordered
			_, err := sh.Publish(o)
			return err
		},
		"rejected": func(_ *world, sh *Shadow, _ PublishOptions) error {
			_, err := sh.Reject(nil)
			return err
		},
	}
	for kind, size := range map[string]int64{"ext4": 32, "xfs": 320} {
		t.Run(kind, func(t *testing.T) {
			root, image := ownImage(t, kind, size)
			w := newWorld(t, root)
			for way := range ways {
				for i := range files {
					w.write(fmt.Sprintf("d/%s-old-%d", way, i), old)
				}
			}
			unix.Sync()
			for way, goesOn := range ways {
				for i := range 2 * files {
					w.syncWay(fmt.Sprintf("d/%s-%s-%d", way, []string{"old", "new"}[i/files], i%files), i >= files, content, goesOn)
				}
			}
			fsShutdown(t, root)
			w.afterPowerCut(image)
			recovered, _ := w.restart()
			t.Logf("recovered %d, kept aside %d", len(recovered.Synced), len(w.keptContents()))
			kept := 0
			for way := range ways {
				for i := range files {
					switch b, err := os.ReadFile(w.path(fmt.Sprintf("d/%s-new-%d", way, i))); {
					case way == "rejected" && os.IsNotExist(err): // that it was is on disk, or not yet
						kept++
					case err != nil || string(b) != content:
						t.Errorf("%s-new-%d: %d bytes, %v", way, i, len(b), err)
					}
					switch got := w.read(fmt.Sprintf("d/%s-old-%d", way, i)); {
					case got == content && (way == "closed" || way == "ordered"):
					case got == old && way != "closed":
						kept++
					default:
						t.Errorf("%s-old-%d: %d bytes", way, i, len(got))
					}
				}
			}
			all := w.keptContents()
			if len(all) != kept || slices.ContainsFunc(all, func(s string) bool { return s != content }) {
				t.Errorf("%d were kept, want %d", len(all), kept)
			}
			w.checkNothingLeft()
		})
	}
}

// syncWay writes and syncs a file, and goes on with it.
func (w *world) syncWay(name string, isNew bool, content string, goesOn func(*world, *Shadow, PublishOptions) error) {
	w.t.Helper()
	o := w.publishOptions(name, nil)
	var sh *Shadow
	var err error
	if isNew {
		sh, err = w.s.NewShadow(w.shadowOptions(name, nil))
	} else {
		sh, o.Base = w.shadowOf(name)
	}
	check(w.t, err)
	check(w.t, disk.WriteAll(sh.FD(), []byte(content), 0))
	check(w.t, w.s.WriteBack(sh.FD()))
	check(w.t, sh.Secure(SyncOptions{Dir: o.Dir, DirPath: o.DirPath, Name: o.Name, Appears: isNew}, nil))
	check(w.t, w.s.SyncSecured(sh.FD(), sh.Recorded()))
	if goesOn != nil {
		check(w.t, goesOn(w, sh, o))
		check(w.t, sh.Discard())
	}
}
