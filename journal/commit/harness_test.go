package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
)

// filesystems are the places that the tests run on: the temporary directory,
// and for root an image of each filesystem that the kernel has.
var filesystems map[string]string

// places are the filesystems that a test has its n-th case on.
type places func(n int) map[string]string

func everywhere(int) map[string]string { return filesystems }

// inTurn has each case on one filesystem, and the next case on the next: for tests that go
// through the steps of each case, and then through the steps of something else. The tests of
// chance have all cases everywhere.
func inTurn(n int) map[string]string {
	if os.Getenv("LATCHFS_STRESS") != "" {
		return filesystems
	}
	names := slices.Sorted(maps.Keys(filesystems))
	name := names[n%len(names)]
	return map[string]string{name: filesystems[name]}
}

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv("LATCHFS_TEST_NAMESPACE") == "" {
		os.Exit(inNamespace())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "latchfs-commit-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o755) // for tests as an ordinary user
		filesystems = map[string]string{"tmp": filepath.Join(dir, "tmp")}
		os.Mkdir(filesystems["tmp"], 0o755)
		if os.Geteuid() == 0 {
			images, remove := imageDir(dir)
			defer remove()
			// What a test has on no filesystem in particular need not wait for a disk
			// either.
			os.Setenv("TMPDIR", images)
			for _, kind := range []string{"ext4", "xfs", "btrfs"} {
				mib := int64(600)
				if kind == "xfs" {
					mib = 2400 // the images whose power fails lie there
				}
				at, unmount, err := mountImage(images, kind, mib)
				if err != nil {
					fmt.Fprintf(os.Stderr, "no tests on %s: %v\n", kind, err)
					continue
				}
				defer unmount()
				filesystems[kind] = at
				if kind == "ext4" {
					delete(filesystems, "tmp") // most likely the same, on a slower disk
				}
			}
		}
		return m.Run()
	}())
}

// imageDir is where images of filesystems are kept: in memory, if there is room, as
// thousands of syncs wait for a disk otherwise.
func imageDir(otherwise string) (dir string, remove func()) {
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) == nil && st.Type == unix.TMPFS_MAGIC && st.Bavail*uint64(st.Bsize) > 4<<30 {
		if dir, err := os.MkdirTemp("/dev/shm", "latchfs-commit-"); err == nil {
			_ = os.Chmod(dir, 0o755) // for tests as an ordinary user
			return dir, func() { os.RemoveAll(dir) }
		}
	}
	return otherwise, func() {}
}

// inNamespace runs the tests in a mount namespace of their own: whatever becomes
// of them, no mount is left.
func inNamespace() int {
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), "LATCHFS_TEST_NAMESPACE=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}

// mountImage makes a filesystem of that many MiB in a file below dir and mounts
// it.
func mountImage(dir, kind string, mib int64) (at string, unmount func(), err error) {
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return "", nil, err
	}
	if !strings.Contains(string(known), "\t"+kind+"\n") {
		return "", nil, errors.New("the kernel lacks it")
	}
	image, at := filepath.Join(dir, kind+".img"), filepath.Join(dir, kind)
	f, err := os.Create(image)
	if err != nil {
		return "", nil, err
	}
	err = errors.Join(f.Truncate(mib<<20), f.Close(), os.Mkdir(at, 0o755))
	if err != nil {
		return "", nil, err
	}
	options := "loop"
	if kind == "ext4" {
		options += ",noauto_da_alloc" // which would hide a missing sync
	}
	for _, args := range [][]string{{"mkfs." + kind, "-q", image}, {"mount", "-o", options, image, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", nil, fmt.Errorf("%s: %w: %s", args, err, out)
		}
	}
	return at, func() { unix.Unmount(at, unix.MNT_DETACH) }, os.Chmod(at, 0o755)
}

// eachFS runs fn with a new data root on each filesystem.
func eachFS(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	for name, at := range filesystems {
		t.Run(name, func(t *testing.T) {
			root, err := os.MkdirTemp(at, "root-")
			check(t, err)
			t.Cleanup(func() { os.RemoveAll(root) })
			fn(t, newWorld(t, root))
		})
	}
}

// world is a data root with a store, which can crash.
type world struct {
	t     testing.TB
	root  string
	dir   *os.File // the data root
	state *os.File
	j     *journal.Journal
	s     *Store
	steps []string // the changes to the disk so far
}

func newWorld(t testing.TB, root string) *world {
	t.Helper()
	check(t, os.Mkdir(filepath.Join(root, disk.StateDirName), 0o700))
	w := &world{t: t, root: root}
	w.dir = openFile(t, root, os.O_RDONLY)
	w.state = openFile(t, filepath.Join(root, disk.StateDirName), os.O_RDONLY)
	w.start()
	return w
}

// start opens the journal and the store, as after a crash.
func (w *world) start() {
	w.t.Helper()
	j, err := journal.Open(w.state, journal.Options{MaxBytes: 64 << 10, Logf: w.t.Logf})
	check(w.t, err)
	w.t.Cleanup(func() { _ = j.Close() }) // only now: a crash closes nothing in order
	w.j, w.s, w.steps = j, NewStore(int(w.dir.Fd()), w.state, j), nil
	w.s.lazies.Delay = time.Hour // nothing happens by itself
	w.s.lazyAnywhere = true
	w.s.disk.Fault = func(step string) error { w.steps = append(w.steps, step); return nil }
}

var errInjected = errors.New("injected")

// failAt makes the n-th change to the disk from now on fail; if crash is set all
// later ones fail too, as if the process had died there. reached tells whether
// it came to that.
func (w *world) failAt(n int, crash bool) (reached func() bool) {
	count, fired := 0, false
	w.s.disk.Fault = func(step string) error {
		w.steps = append(w.steps, step)
		count++
		if count == n || crash && count > n {
			fired = true
			return errInjected
		}
		return nil
	}
	return func() bool { return fired }
}

// restart is a start after a crash, with recovery and a sweep.
func (w *world) restart() (recovered, swept recovery.Report) {
	w.t.Helper()
	w.start()
	recovered, err := w.s.Recover()
	check(w.t, err)
	swept, err = w.s.Sweep(context.Background())
	check(w.t, err)
	return recovered, swept
}

func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) write(name, content string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	check(w.t, os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	check(w.t, err)
	return string(b)
}

func (w *world) stat(name string) unix.Stat_t {
	w.t.Helper()
	var st unix.Stat_t
	check(w.t, unix.Lstat(w.path(name), &st))
	return st
}

func (w *world) version(name string) *disk.Version {
	w.t.Helper()
	st := w.stat(name)
	v := disk.VersionOf(&st)
	return &v
}

// leftovers are the reserved names anywhere, and all of the state directory but
// the journal and what was rejected.
func (w *world) leftovers() []string {
	w.t.Helper()
	var found []string
	check(w.t, filepath.WalkDir(w.root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.root, path)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(d.Name(), disk.ReservedPrefix), strings.HasPrefix(d.Name(), rejected.NewPrefix):
			found = append(found, rel)
		}
		return nil
	}))
	return found
}

func (w *world) checkNothingLeft() {
	w.t.Helper()
	if found := w.leftovers(); len(found) > 0 {
		w.t.Errorf("left behind: %q", found)
	}
	if pending := w.s.disk.Pending(); len(pending) > 0 {
		w.t.Errorf("pending: %+v", pending)
	}
	if names := w.s.disk.NamesInUse(); len(names) > 0 {
		w.t.Errorf("names in use: %v", names)
	}
}

// options for the file at the path name.
func (w *world) shadowOptions(name string, base *os.File) ShadowOptions {
	o := ShadowOptions{Dir: w.openDir(filepath.Dir(name)), DirPath: filepath.Dir(name), Name: filepath.Base(name), Base: -1, Mode: 0o644, UID: -1, GID: -1}
	if base != nil {
		o.Base = int(base.Fd())
	}
	return o
}

func (w *world) publishOptions(name string, base *disk.Version) PublishOptions {
	return PublishOptions{Dir: w.openDir(filepath.Dir(name)), DirPath: filepath.Dir(name), Name: filepath.Base(name), Base: base, Token: 1}
}

// openDir opens a directory as the nodes of the mount are: O_PATH.
func (w *world) openDir(name string) int {
	w.t.Helper()
	return int(openFile(w.t, w.path(name), unix.O_PATH|unix.O_DIRECTORY).Fd())
}

// shadowOf makes a filled and marked shadow of an existing file, and returns the
// version that it is based on.
func (w *world) shadowOf(name string) (*Shadow, *disk.Version) {
	w.t.Helper()
	base := openFile(w.t, w.path(name), os.O_RDONLY)
	v := w.version(name)
	sh, err := w.s.NewShadow(w.shadowOptions(name, base))
	check(w.t, err)
	check(w.t, sh.Fill(int(base.Fd())))
	check(w.t, sh.Mark())
	check(w.t, base.Close())
	return sh, v
}

func overwriteFD(t testing.TB, fd int, content string) {
	t.Helper()
	check(t, unix.Ftruncate(fd, 0))
	check(t, disk.WriteAll(fd, []byte(content), 0))
}

func openFile(t testing.TB, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o644)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorldAt is a store on another data root with the state directory of w.
func newWorldAt(t testing.TB, w *world, root string) *world {
	t.Helper()
	other := *w
	other.root, other.dir = root, openFile(t, root, os.O_RDONLY)
	other.s = NewStore(int(other.dir.Fd()), w.state, w.j)
	return &other
}
