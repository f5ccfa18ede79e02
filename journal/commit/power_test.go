package commit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// putStep is the step that brings the content to the disk before it gets its name.
func putStep(sh *Shadow) string {
	if sh.keepsOrder() {
		return "writeback"
	}
	return "fsync"
}

// markStep is the step that makes a marker.
func markStep(sh *Shadow) string {
	if sh.keepsOrder() {
		return "mark"
	}
	return "symlink"
}

// withoutFirst leaves out the steps that only the first lazy commit of a directory takes.
func withoutFirst(steps []string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.Join(steps, " "), "create "), "begin syncjournal ")
}

// powered is a disk whose power can fail: an image on a filesystem with clones. A clone
// holds what has been written to the disk by then, and nothing that the kernel only
// remembers.
type powered struct {
	kind  string
	mkfs  []string
	mount string // options
	order bool   // one sync does for the bytes and the names
}

var poweredDisks = []powered{
	{"ext4", nil, "noauto_da_alloc", true},
	{"ext4", nil, "auto_da_alloc", true},
	{"ext4", nil, "nodelalloc,noauto_da_alloc", true},
	{"ext4", nil, "dioread_lock,noauto_da_alloc", true},
	{"ext4", nil, "data=writeback,noauto_da_alloc", false},
	{"xfs", nil, "nouuid", true}, // the disk after the cut is mounted beside the other
	{"btrfs", nil, "", false},
}

func (d powered) String() string {
	return strings.Join(append([]string{d.kind, d.mount}, d.mkfs...), " ")
}

// Disks on which nothing is known of the order: what is done to them there waits for a
// sync of its own.
var unorderedDisks = []powered{
	{"ext4", []string{"-O", "^has_journal"}, "", false},
	{"ext4", []string{"-O", "fast_commit"}, "", false},
	{"ext4", nil, "nobarrier", false},
	{"ext4", nil, "journal_async_commit,data=writeback", false},
	{"ext4", nil, "data=journal", false},
}

func TestOrderIsNotTakenForGranted(t *testing.T) {
	shelf := filesystems["xfs"]
	if shelf == "" {
		t.Skip("no images")
	}
	for _, d := range unorderedDisks {
		t.Run(d.String(), func(t *testing.T) {
			_, at := d.make(t, shelf)
			w := newWorld(t, at)
			w.write("f", "old")
			sh, base := w.shadowOf("f")
			check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
			w.steps = nil
			_, err := sh.Publish(w.publishOptions("f", base))
			check(t, err)
			if w.steps[0] != "fsync" {
				t.Errorf("the commit is %q", w.steps)
			}
			check(t, sh.Discard())
		})
	}
}

// cloneShelf is where the images of disks lie, which are cut off by clones: a filesystem that
// has reflinks.
func cloneShelf(t *testing.T) string {
	t.Helper()
	shelf := filesystems["xfs"]
	if shelf == "" {
		t.Skip("no filesystem with clones")
	}
	return shelf
}

// make makes the disk and mounts it. on must be able to clone.
func (d powered) make(t *testing.T, on string) (image, at string) {
	t.Helper()
	dir, err := os.MkdirTemp(on, "disk-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	image = filepath.Join(dir, "image")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 320<<20))
	args := append([]string{"-q"}, d.mkfs...)
	if out, err := exec.Command("mkfs."+d.kind, append(args, image)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs: %v: %s", err, out)
	}
	return image, d.boot(t, image)
}

// boot mounts the image.
func (d powered) boot(t *testing.T, image string) (at string) {
	t.Helper()
	at = image + ".mnt"
	check(t, os.Mkdir(at, 0o755))
	options := "loop"
	if d.mount != "" {
		options += "," + d.mount
	}
	if out, err := exec.Command("mount", "-o", options, image, at).CombinedOutput(); err != nil {
		t.Fatalf("mount %s: %v: %s", image, err, out)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

// cut is what the disk holds when the power fails now.
func cut(t *testing.T, image string, n int) string {
	t.Helper()
	from := openFile(t, image, os.O_RDONLY)
	to := openFile(t, fmt.Sprint(image, "-", n), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	defer from.Close()
	defer to.Close()
	check(t, unix.IoctlFileClone(int(to.Fd()), int(from.Fd())))
	return to.Name()
}

// shapes are the ways in which the content of a version comes about.
var shapes = map[string]func(t *testing.T, fd int){
	"small": func(t *testing.T, fd int) { check(t, disk.WriteAll(fd, []byte("new content"), 0)) },
	"large": func(t *testing.T, fd int) {
		check(t, disk.WriteAll(fd, []byte(strings.Repeat("new line of text\n", 40_000)), 0))
	},
	"sparse": func(t *testing.T, fd int) {
		check(t, disk.WriteAll(fd, []byte("head"), 0))
		check(t, disk.WriteAll(fd, []byte("tail"), 1<<20+17))
		check(t, unix.Ftruncate(fd, 2<<20))
	},
	"allocated": func(t *testing.T, fd int) {
		check(t, unix.Fallocate(fd, 0, 0, 256<<10))
		check(t, disk.WriteAll(fd, []byte("in the middle"), 100_000))
	},
	"allocated beyond the end": func(t *testing.T, fd int) {
		check(t, unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 256<<10))
		check(t, disk.WriteAll(fd, []byte("a new beginning"), 0))
	},
	"mapped": func(t *testing.T, fd int) {
		check(t, unix.Ftruncate(fd, 10_000))
		b, err := unix.Mmap(fd, 0, 10_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		check(t, err)
		copy(b[5_000:], "through a mapping")
		check(t, unix.Munmap(b))
	},
	"cut and longer again": func(t *testing.T, fd int) {
		check(t, disk.WriteAll(fd, []byte(strings.Repeat("x", 9_000)), 0))
		check(t, unix.Ftruncate(fd, 5_000))
		check(t, unix.Ftruncate(fd, 8_000))
	},
}

// The power fails before each step of a commit and after the last one, while others
// commit the filesystem's journal at the worst moments: the name has the old content or
// the new one, and the new one as soon as the commit has returned.
func TestPowerCutAtEveryStep(t *testing.T) {
	shelf := cloneShelf(t)
	for _, d := range poweredDisks {
		t.Run(d.String(), func(t *testing.T) {
			image, at := d.make(t, shelf)
			w := newWorld(t, at)
			if got := w.s.disk.KeepsOrder(uint64(w.stat(".").Dev)); got != d.order {
				t.Fatalf("keeps its order: %v", got)
			}
			cuts := 0
			for name, write := range shapes {
				cuts = cutCommit{Full, name, write, true}.run(t, d, w, image, cuts)
				if os.Getenv("LATCHFS_STRESS") == "" {
					continue
				}
				for _, c := range []cutCommit{{Full, name, write, false}, {Ordered, name, write, true}, {Ordered, name, write, false}} {
					cuts = c.run(t, d, w, image, cuts)
				}
			}
			t.Logf("%d cuts", cuts)
		})
	}
}

// cutCommit is a commit during which the power fails.
type cutCommit struct {
	durability Durability
	shape      string
	write      func(t *testing.T, fd int)
	others     bool // others commit the filesystem's journal before each step
}

func (c cutCommit) run(t *testing.T, d powered, w *world, image string, cuts int) int {
	t.Helper()
	w.write("f", "old content")
	check(t, unix.Syncfs(int(w.dir.Fd())))
	sh, base := w.shadowOf("f")
	c.write(t, sh.FD())
	updated, err := os.ReadFile(fmt.Sprint("/proc/self/fd/", sh.FD()))
	check(t, err)
	type moment struct{ image, step string }
	var moments []moment
	note := func(step string) {
		if c.others {
			commitJournal(t, w)
		}
		cuts++
		moments = append(moments, moment{cut(t, image, cuts), step})
	}
	w.s.disk.Fault = func(step string) error { note(step); return nil }
	o := w.publishOptions("f", base)
	o.Durability = c.durability
	_, err = sh.Publish(o)
	check(t, err)
	c.others = false // nobody helps what was acknowledged
	note("")
	w.s.disk.Fault = nil
	check(t, sh.Discard())
	for _, m := range moments {
		after := bootCut(t, d, m.image)
		switch got := after.read("f"); {
		case got == string(updated):
		case m.step == "" && c.durability == Full:
			t.Errorf("%s, %s, after the commit: %d bytes, %.20q", c.durability, c.shape, len(got), got)
		case got != "old content":
			t.Errorf("%s, %s, before %q: %d bytes, %.20q", c.durability, c.shape, m.step, len(got), got)
		}
		after.checkNothingLeft()
		after.gone()
		check(t, os.Remove(m.image))
	}
	return cuts
}

// commitJournal is somebody else's fsync, with which the names that were changed so far
// come to the disk.
func commitJournal(t *testing.T, w *world) {
	t.Helper()
	f := openFile(t, w.path("somebody's"), os.O_RDWR|os.O_CREATE)
	defer f.Close()
	_, err := f.WriteString("x")
	check(t, errors.Join(err, f.Sync()))
}

// booted is a data root after a power cut.
type booted struct {
	*world
	at string
}

func bootCut(t *testing.T, d powered, image string) *booted {
	t.Helper()
	at := d.boot(t, image)
	w := &world{t: t, root: at}
	w.dir = openFile(t, at, os.O_RDONLY)
	w.state = openFile(t, filepath.Join(at, disk.StateDirName), os.O_RDONLY)
	w.restart()
	return &booted{w, at}
}

func (b *booted) gone() {
	b.t.Helper()
	check(b.t, errors.Join(b.s.Close(), b.j.Close(), b.dir.Close(), b.state.Close()))
	check(b.t, unix.Unmount(b.at, 0))
	check(b.t, os.Remove(b.at))
}

// cuts are power cuts before each step, and after the last.
type cuts struct {
	t     *testing.T
	image string
	w     *world
	alone bool     // nobody else commits the filesystem's journal
	steps []string // the last one is ""
}

// before is the fault of a step: others commit the filesystem's journal as early as that
// can happen, and the power fails.
func (c *cuts) before(step string) error {
	if step != "" && !c.alone {
		commitJournal(c.t, c.w)
	}
	c.steps = append(c.steps, step)
	cut(c.t, c.image, len(c.steps))
	return nil
}

// end has the power fail once more, and ends the faults.
func (c *cuts) end() {
	c.t.Helper()
	check(c.t, c.before(""))
	c.w.s.disk.Fault = nil
}

// each calls do for what there is after each cut.
func (c *cuts) each(d powered, do func(step string, after *booted)) {
	c.t.Helper()
	for i, step := range c.steps {
		image := fmt.Sprint(c.image, "-", i+1)
		after := bootCut(c.t, d, image)
		do(step, after)
		after.checkNothingLeft()
		after.gone()
		check(c.t, os.Remove(image)) // each takes some MiB of the shelf
	}
}

// The power fails at each step of an fsync, while others commit the filesystem's journal,
// and after it: the new file that was synced has its name then, with all that it held.
func TestPowerCutAtEveryStepOfAnFsync(t *testing.T) {
	shelf := cloneShelf(t)
	for _, d := range poweredDisks {
		t.Run(d.String(), func(t *testing.T) {
			image, at := d.make(t, shelf)
			w := newWorld(t, at)
			w.write("d/other", "")
			check(t, unix.Syncfs(int(w.dir.Fd())))
			c := &cuts{t: t, image: image, w: w}
			o := w.shadowOptions("d/f", nil)
			o.DirPath, o.Name = "d", "f"
			sh, err := w.s.NewShadow(o)
			check(t, err)
			w.leftOpen(sh)
			check(t, disk.WriteAll(sh.FD(), []byte("new content"), 0))
			w.s.disk.Fault = c.before
			if !w.syncAs(sh, true) {
				t.Fatal("not synced")
			}
			c.end()
			if sh.Recorded() != d.order {
				t.Errorf("its record is on disk with it: %v", sh.Recorded())
			}
			c.each(d, func(step string, after *booted) {
				got, err := os.ReadFile(after.path("d/f"))
				if string(got) != "new content" && (err == nil || step == "") {
					t.Errorf("before %q: %q, %v", step, got, err)
				}
			})
		})
	}
}
