package commit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/tail"
)

// ownImage mounts an image for one test.
func ownImage(t *testing.T, kind string, mib int64) (root, image string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount an image")
	}
	dir := t.TempDir()
	at, unmount, err := mountImage(dir, kind, mib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unmount)
	root = filepath.Join(at, "root")
	check(t, os.Mkdir(root, 0o755))
	return root, filepath.Join(dir, kind+".img")
}

// fillDisk leaves no room on the filesystem of w.
func (w *world) fillDisk() {
	w.t.Helper()
	f := openFile(w.t, w.path("ballast"), os.O_CREATE|os.O_WRONLY)
	for size := 1 << 20; size >= 512; size /= 2 {
		for {
			if _, err := f.Write(bytes.Repeat([]byte("x"), size)); err != nil {
				if !errors.Is(err, unix.ENOSPC) {
					w.t.Fatal(err)
				}
				break
			}
		}
	}
	check(w.t, errors.Join(f.Sync(), f.Close()))
}

// With the disk full every way to commit fails and leaves the old version, the
// bytes that were written before are kept, and after space was freed all goes
// on as if nothing had happened.
func TestFullDisk(t *testing.T) {
	for kind, size := range map[string]int64{"ext4": 32, "xfs": 320} {
		t.Run(kind, func(t *testing.T) {
			root, _ := ownImage(t, kind, size)
			w := newWorld(t, root)
			w.restart() // a start, which sees to it that there is space to reject
			old := strings.Repeat("old\n", 4096)
			w.write("f", old)
			w.write("g", old)
			w.write("keep", old)
			sh, base := w.shadowOf("f")
			target := openFile(t, w.path("g"), os.O_RDWR)
			inPlace, gbase := w.shadowOf("g")
			rejected, _ := w.shadowOf("keep")
			check(t, disk.WriteAll(rejected.FD(), []byte("new"), 0))
			check(t, disk.WriteAll(inPlace.FD(), bytes.Repeat([]byte("new\n"), 200_000), 0))
			check(t, unix.Fsync(rejected.FD()))
			check(t, unix.Fsync(inPlace.FD()))
			w.fillDisk()

			if err := disk.WriteAll(sh.FD(), bytes.Repeat([]byte("new\n"), 500_000), 0); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("the disk is not full: %v", err)
			}
			if _, err := inPlace.InPlace(int(target.Fd()), w.publishOptions("g", gbase)); !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrRedoPending) {
				t.Errorf("InPlace: %v", err)
			}
			for _, name := range []string{"f", "g", "keep"} {
				if w.read(name) != old {
					t.Errorf("%s has changed", name)
				}
			}
			id, err := rejected.Reject(map[string]any{"reason": "disk full"})
			check(t, err)
			kept := ".latchfs/rejected/" + id
			if got := w.read(kept + "/content"); !strings.HasPrefix(got, "new") || len(got) != len(old) {
				t.Errorf("kept %d bytes", len(got))
			}
			if meta := w.read(kept + "/meta.json"); !strings.Contains(meta, "disk full") {
				t.Errorf("meta %q", meta)
			}
			check(t, os.Remove(w.path("ballast")))
			unix.Sync()
			v := w.version("g")
			_, err = inPlace.InPlace(int(target.Fd()), w.publishOptions("g", v))
			check(t, err)
			check(t, unix.Ftruncate(sh.FD(), 0))
			_, err = sh.Publish(w.publishOptions("f", base))
			check(t, err)
			check(t, errors.Join(sh.Discard(), inPlace.Discard(), rejected.Discard()))
			if w.read("f") != "" || !strings.HasPrefix(w.read("g"), "new\nnew\n") {
				t.Error("not committed after space was freed")
			}
			w.checkNothingLeft()
		})
	}
}

// A small commit goes through on a full disk, for the journal has its space.
func TestJournalHasItsSpace(t *testing.T) {
	root, _ := ownImage(t, "ext4", 32)
	w := newWorld(t, root)
	w.write("f", "old")
	sh, base := w.shadowOf("f")
	check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
	w.fillDisk()
	_, err := sh.Publish(w.publishOptions("f", base))
	check(t, err)
	check(t, sh.Discard())
	w.checkNothingLeft()
}

// fsShutdown cuts a filesystem off from its disk: what is not there yet never
// gets there (EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, without flushing the log).
func fsShutdown(t *testing.T, root string) {
	t.Helper()
	fd := int(openFile(t, root, os.O_RDONLY).Fd())
	check(t, unix.IoctlSetPointerInt(fd, 0x8004587d, 2))
}

// TestPowerCut publishes in every way and cuts the power at once. Full and in
// place must be there; ordered must be one complete version.
func TestPowerCut(t *testing.T) {
	const files = 20
	old, content := strings.Repeat("old\n", 2000), strings.Repeat("new\n", 3000)
	for kind, size := range map[string]int64{"ext4": 32, "xfs": 320} {
		t.Run(kind, func(t *testing.T) {
			root, image := ownImage(t, kind, size)
			w := newWorld(t, root)
			name := func(way string, i int) string {
				if way == "lazy" { // which full would settle in its directory, all of the disk with it
					return fmt.Sprintf("e/lazy-%d", i)
				}
				return fmt.Sprintf("d/%s-%d", way, i)
			}
			// The syncs of the later ones make the renames of the first one durable.
			ways := []string{"unsynced", "ordered", "lazy", "in place", "new", "full"}
			for _, way := range ways {
				for i := range files {
					if way != "new" {
						w.write(name(way, i), old)
					}
				}
			}
			unix.Sync()
			for _, way := range ways {
				for i := range files {
					w.commitWay(way, name(way, i), content)
				}
			}
			fsShutdown(t, root)
			w.afterPowerCut(image)
			recovered, swept := w.restart()
			t.Logf("recovered %+v, swept %+v", recovered, swept)
			lost := 0
			for _, way := range ways {
				for i := range files {
					b, err := os.ReadFile(w.path(name(way, i)))
					got := string(b)
					switch {
					case err == nil && got == content:
					case way == "unsynced" && got != old:
						lost++
					case (way == "ordered" || way == "lazy" || way == "unsynced") && got == old:
					default:
						t.Errorf("%s: %d bytes, %v", name(way, i), len(got), err)
					}
				}
			}
			if lost == 0 {
				t.Error("the way that syncs nothing has lost nothing: this test proves nothing")
			}
			w.checkNothingLeft()
		})
	}
}

func (w *world) commitWay(way, name, content string) {
	w.t.Helper()
	var sh *Shadow
	var err error
	o := w.publishOptions(name, nil)
	switch way {
	case "new":
		sh, err = w.s.NewShadow(w.shadowOptions(name, nil))
	case "unsynced": // not filled: what is lost of a reflink is the old content again
		sh, err = w.s.NewShadow(w.shadowOptions(name, openFile(w.t, w.path(name), os.O_RDONLY)))
		o.Base = w.version(name)
	default:
		sh, o.Base = w.shadowOf(name)
	}
	check(w.t, err)
	check(w.t, disk.WriteAll(sh.FD(), []byte(content), 0))
	switch way {
	case "in place":
		_, err = sh.InPlace(int(openFile(w.t, w.path(name), os.O_RDWR).Fd()), o)
	case "unsynced":
		st := statFD(w.t, sh.FD())
		err = sh.publishOver(o, st)
		sh.published = true
		check(w.t, sh.name.Gone())
	case "new":
		_, err = sh.Publish(o)
	default:
		o.Durability = Durability(way)
		_, err = sh.Publish(o)
	}
	check(w.t, err)
	check(w.t, sh.Discard())
}

// afterPowerCut moves w to what is on the disk: a copy, for our own descriptors
// keep the filesystem that was shut down alive.
func (w *world) afterPowerCut(image string) {
	w.t.Helper()
	cut, at := image+".after", image+".mnt"
	out, err := exec.Command("cp", "--sparse=always", image, cut).CombinedOutput()
	if err == nil {
		err = os.Mkdir(at, 0o755)
	}
	if err == nil {
		options := "loop"
		if strings.Contains(image, "xfs") {
			options += ",nouuid"
		}
		out, err = exec.Command("mount", "-o", options, cut, at).CombinedOutput()
	}
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	w.t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	w.root = filepath.Join(at, "root")
	w.dir = openFile(w.t, w.root, os.O_RDONLY)
	w.state = openFile(w.t, w.path(disk.StateDirName), os.O_RDONLY)
}

// What was appended and synced survives a cut of the power, and nothing else but
// whole lines.
func TestPowerCutWhileAppending(t *testing.T) {
	for kind, size := range map[string]int64{"ext4": 32, "xfs": 320} {
		t.Run(kind, func(t *testing.T) {
			root, image := ownImage(t, kind, size)
			w := newWorld(t, root)
			w.s.disk.Fault = nil
			const logs, odd = 8, 3
			acked, all := make([]string, logs), make([]string, logs)
			for i := range logs {
				name := fmt.Sprint("log", i)
				w.write(name, "")
				f := openFile(t, w.path(name), os.O_RDWR|os.O_APPEND)
				tail, err := w.s.Tail(tail.Options{FD: int(f.Fd()), Name: name})
				check(t, err)
				for n := range 50 {
					record := fmt.Sprintf("%d %s\n", n, strings.Repeat("x", n*i*7))
					if i >= logs-odd {
						record = fmt.Sprintf("%d \x00%s", n, strings.Repeat("x", n*i*7))
					}
					all[i] += record
					seq, err := tail.Append(int(f.Fd()), []byte(record))
					check(t, err)
					if n == i*6 || n == 41 && i%2 == 0 {
						check(t, tail.Sync(seq))
						acked[i] = all[i]
					}
				}
			}
			d := openFile(t, root, os.O_RDONLY)
			check(t, d.Sync())
			fsShutdown(t, root)
			w.afterPowerCut(image)
			recovered, _ := w.restart()
			t.Logf("%+v", recovered.Cut)
			for i := range logs {
				got := w.read(fmt.Sprint("log", i))
				if !strings.HasPrefix(got, acked[i]) || !strings.HasPrefix(all[i], got) {
					t.Errorf("log%d: %d bytes, %d acknowledged", i, len(got), len(acked[i]))
				}
				if i < logs-odd && got != "" && !strings.HasSuffix(got, "\n") {
					t.Errorf("log%d ends with %q", i, got[len(got)-3:])
				}
			}
			w.checkNothingLeft()
		})
	}
}

// A record for which there is no room is not there, and those before and after
// it are.
func TestAppendOnAFullDisk(t *testing.T) {
	for kind, size := range map[string]int64{"ext4": 32, "xfs": 320} {
		t.Run(kind, func(t *testing.T) {
			root, _ := ownImage(t, kind, size)
			w := newWorld(t, root)
			w.restart()
			w.s.disk.Fault = nil
			f := openFile(t, w.path("log"), os.O_RDWR|os.O_APPEND|os.O_CREATE)
			tail, err := w.s.Tail(tail.Options{FD: int(f.Fd()), Name: "log"})
			check(t, err)
			add := func(b []byte) error { _, err := tail.Append(int(f.Fd()), b); return err }
			check(t, add([]byte("first\n")))
			w.fillDisk()
			if err := add(bytes.Repeat([]byte("x"), 3<<20)); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("appending to a full disk: %v", err)
			}
			if got := w.read("log"); got != "first\n" {
				t.Errorf("the log has %d bytes", len(got))
			}
			check(t, os.Remove(w.path("ballast")))
			unix.Sync()
			check(t, add([]byte("last\n")))
			check(t, tail.Sync(tail.Last()))
			w.start()
			_, err = w.s.Recover()
			check(t, err)
			if got := w.read("log"); got != "first\nlast\n" {
				t.Errorf("the log holds %.30q", got)
			}
		})
	}
}
