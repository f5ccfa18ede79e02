package disk

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// depth is that of the deepest directory in the tests' tree.
const depth = 100

// tree is a data root on which walks are tried.
type tree struct {
	*testing.T
	*Disk
	root string
}

// everything is what a walk of the tree meets: two files in each of these directories.
var everything = []string{"", "a", "a/b", "a/b/c", "d", "d/e", "f", "g", strings.Repeat("g/", depth) + "g"}

func newTree(t *testing.T) *tree {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	for _, dir := range everything {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		for _, name := range []string{"1", "2"} {
			must(t, os.WriteFile(filepath.Join(root, dir, name), nil, 0o644))
		}
	}
	must(t, os.Mkdir(filepath.Join(root, "empty"), 0o755))
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return &tree{T: t, Disk: &Disk{Root: fd}, root: root}
}

// walk walks until nothing is moved meanwhile. first is called once, before the first file
// in a directory is met. It returns the directories of the files that the last walk has met,
// each for each file, and how many walks there were.
func (r *tree) walk(first map[string]func()) (met []string, walks int) {
	r.Helper()
	before := descriptors(r.T)
	err := r.WalkAll(context.Background(), func() { met, walks = nil, walks+1 }, func(_ int, where string, e Entry) error {
		if do := first[where]; do != nil && !e.IsDir {
			delete(first, where)
			do()
		}
		if more := descriptors(r.T) - before; more > 3 {
			r.Errorf("the walk has %d descriptors in %.20s", more, where)
		}
		if !e.IsDir {
			met = append(met, where)
		}
		return nil
	})
	must(r.T, err)
	if left := descriptors(r.T) - before; left != 0 {
		r.Errorf("the walk has left %d descriptors", left)
	}
	slices.Sort(met)
	return met, walks
}

// mustMeet wants a walk to meet the files in these directories.
func (r *tree) mustMeet(met, dirs []string) {
	r.Helper()
	want := append(slices.Clone(dirs), dirs...)
	slices.Sort(want)
	if !slices.Equal(met, want) {
		r.Errorf("met files in %.200q\nwant %.200q", met, want)
	}
}

func (r *tree) path(name string) string { return filepath.Join(r.root, name) }

// covers are ways to mount something over the data root.
var covers = map[string]func(r *tree){
	"nothing":        func(*tree) {},
	"an empty mount": func(r *tree) { r.tmpfs("") },
	"the same names": func(r *tree) {
		r.tmpfs("")
		for _, dir := range everything {
			must(r.T, os.MkdirAll(r.path(dir), 0o755))
		}
	},
	"the same directory": func(r *tree) { r.bind("", "") },
}

func (r *tree) tmpfs(name string) { r.mount("none", name, "tmpfs", 0) }

func (r *tree) bind(from, to string) { r.mount(r.path(from), to, "", unix.MS_BIND) }

func (r *tree) mount(what, name, kind string, flags uintptr) {
	r.Helper()
	must(r.T, unix.Mount(what, r.path(name), kind, flags, ""))
	r.Cleanup(func() { _ = unix.Unmount(r.path(name), unix.MNT_DETACH) })
}

// covered tries walks below whatever may be mounted over the data root, in a mount namespace
// of its own. below makes mounts below the data root; it may be nil.
func covered(t *testing.T, below func(*tree), try func(*tree)) {
	for name, cover := range covers {
		t.Run(name, func(t *testing.T) {
			if name != "nothing" || below != nil {
				ownMounts(t)
			}
			r := newTree(t)
			if below != nil {
				below(r)
			}
			cover(r)
			try(r)
		})
	}
}

// ownMounts gives the test mounts of its own, which end with its thread.
func ownMounts(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts are root's")
	}
	runtime.LockOSThread() // for good: the thread ends with the test's goroutine
	must(t, unix.Unshare(unix.CLONE_NEWNS))
	must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
}

func TestWalkBelowACoveredRoot(t *testing.T) {
	covered(t, nil, func(r *tree) {
		met, walks := r.walk(nil)
		r.mustMeet(met, everything)
		if walks != 1 {
			r.Errorf("walked %d times", walks)
		}
	})
}

// What is mounted below the data root is not the data, nor is what that covers.
func TestWalkBesideMounts(t *testing.T) {
	below := func(r *tree) {
		r.tmpfs("f")
		r.bind("a", "a/b/c")
		r.bind("d", "empty")
		r.bind("d/e", "d/e")
	}
	covered(t, below, func(r *tree) {
		met, walks := r.walk(nil)
		r.mustMeet(met, slices.DeleteFunc(slices.Clone(everything), func(dir string) bool {
			return dir == "f" || dir == "a/b/c" || dir == "d/e"
		}))
		if walks != 1 {
			r.Errorf("walked %d times", walks)
		}
	})
}

// A directory that was moved while the walk was in it is met where it is now.
func TestWalkWhileDirectoriesMove(t *testing.T) {
	moves := map[string]struct{ in, from, to string }{
		"out of the root":         {"a/b", "a", "d/e/a"},
		"into the root":           {"a/b/c", "a/b", "b"},
		"from one to another":     {"a/b/c", "a/b/c", "d/c"},
		"while it is at its leaf": {"f", "f", "d/f"},
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			covered(t, nil, func(r *tree) {
				met, walks := r.walk(map[string]func(){move.in: func() {
					must(r.T, unix.Renameat(r.Root, move.from, r.Root, move.to))
				}})
				want := slices.Clone(everything)
				for i, dir := range want {
					if dir == move.from || strings.HasPrefix(dir, move.from+"/") {
						want[i] = move.to + strings.TrimPrefix(dir, move.from)
					}
				}
				r.mustMeet(met, want)
				if walks != 2 {
					r.Errorf("walked %d times", walks)
				}
			})
		})
	}
}

// A mount that comes over a directory while the walk is below it hides that from the next.
func TestWalkWhileADirectoryIsCovered(t *testing.T) {
	for name, over := range map[string]func(*tree){
		"by another filesystem": func(r *tree) { r.tmpfs("a") },
		"by itself":             func(r *tree) { r.bind("a", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			ownMounts(t)
			r := newTree(t)
			met, walks := r.walk(map[string]func(){"a/b": func() { over(r) }})
			r.mustMeet(met, slices.DeleteFunc(slices.Clone(everything), func(dir string) bool { return strings.HasPrefix(dir, "a") }))
			if walks != 2 {
				r.Errorf("walked %d times", walks)
			}
		})
	}
}

// The data root may be covered, and uncovered, at any time.
func TestWalkWhileTheRootIsCovered(t *testing.T) {
	ownMounts(t)
	r := newTree(t)
	met, walks := r.walk(map[string]func(){
		"":      func() { r.tmpfs("") },
		"a/b/c": func() { must(t, unix.Unmount(r.root, unix.MNT_DETACH)) },
		"d/e":   func() { r.bind("", "") },
	})
	r.mustMeet(met, everything)
	if walks != 1 {
		t.Errorf("walked %d times", walks)
	}
}

// descriptors is how many the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A directory that is removed while it is listed (rm -r) has nothing to be met any more, and
// keeps nothing else from being met.
func TestWalkWhileADirectoryIsRemoved(t *testing.T) {
	r := newTree(t)
	met, _ := r.walk(map[string]func(){"d": func() { must(t, os.RemoveAll(filepath.Join(r.root, "d"))) }})
	r.mustMeet(met, slices.DeleteFunc(slices.Clone(everything), func(dir string) bool { return dir == "d" || dir == "d/e" }))
}

// A directory whose path is longer than one system call can name is opened, by no symbolic link
// and without descriptors that stay.
func TestOpenBelowVeryDeep(t *testing.T) {
	r := newTree(t)
	before := descriptors(t)
	cur, path, long := "", "", strings.Repeat("d", 200)
	fd, err := OpenDir(r.Root, ".")
	must(t, err)
	for range 45 { // twice as long as PATH_MAX
		must(t, unix.Mkdirat(fd, long, 0o755))
		below, err := OpenDir(fd, long)
		must(t, err)
		unix.Close(fd)
		fd, path, cur = below, path+cur+long, "/"
	}
	var want, got unix.Stat_t
	must(t, unix.Fstat(fd, &want))
	must(t, unix.Symlinkat(".", fd, "link"))
	unix.Close(fd)
	found, err := r.OpenBelow(path)
	must(t, err)
	must(t, unix.Fstat(found, &got))
	unix.Close(found)
	if got.Ino != want.Ino {
		t.Errorf("inode %d, want %d", got.Ino, want.Ino)
	}
	for _, wrong := range []string{path + "/link", path + "/nothing", strings.Repeat("x", unix.PathMax)} {
		if fd, err := r.OpenBelow(wrong); err == nil {
			unix.Close(fd)
			t.Errorf("%.20s… of %d bytes is opened", wrong, len(wrong))
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, and before %d", after, before)
	}
}
