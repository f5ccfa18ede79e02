package integration

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Random programs: sequences of system calls that nobody thought of, by one
// process, in a plain directory and in the mount. After each call both answer
// the same errno, and show the same tree to the process; at the end, with every
// descriptor closed, the data directory holds that tree as well. Hard links have
// programs of their own (TestPosixRandomLinks): a writer sees what it has not closed
// yet by the name it opened or renamed it to, and by no other.

// machine is the state of a random program on both sides.
type machine struct {
	names []string  // that programs use
	sides [2]string // directory on the plain side, and on the mount
	fds   []fdPair
	log   []string
}

// fdPair is one descriptor of the program, on both sides.
type fdPair struct{ fds [2]int }

var (
	randomNames = []string{"a", "b", "c", "d/a", "d/b", "d", "e", "e/a"}
	openModes   = []int{
		unix.O_RDWR, unix.O_WRONLY, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC,
		unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_CREAT | unix.O_EXCL,
	}
)

// TestPosixRandom compares random programs.
func TestPosixRandom(t *testing.T) {
	compareRandomPrograms(t, repeat(40, 1000), randomNames, func(string) error { return nil },
		func(mc *machine) map[string]func(*rapid.T) { return mc.actions(t) })
}

// linkNames are few, so that much happens to each.
var linkNames = []string{"a", "b", "c", "d/a", "d/b"}

// TestPosixRandomLinks compares random programs that give files several names, take
// names away and write the files by those that are left. Every writer closes before
// the next call. The trees are compared at the end only: to look at a name would tell
// the mount which one is meant.
func TestPosixRandomLinks(t *testing.T) {
	inTestAll(t)
	compareRandomPrograms(t, repeat(40, 3000), linkNames, func(dir string) error { return os.Mkdir(filepath.Join(dir, "d"), 0o755) },
		func(mc *machine) map[string]func(*rapid.T) { return mc.linkActions() })
}

// compareRandomPrograms runs so many programs on these names, each in a directory of
// its own that prepare has filled, on a plain directory and on either kind of root's mounts.
func compareRandomPrograms(t *testing.T, programs int, names []string, prepare func(dir string) error, actions func(*machine) map[string]func(*rapid.T)) {
	t.Helper()
	needsRoot(t)
	for name, opts := range map[string][]mountOption{"passthrough": nil, "no passthrough": {noPassthrough()}} {
		t.Run(name, func(t *testing.T) {
			randomPrograms(t, programs)
			m := mount(t, append(opts, withArgs("--durability", "ordered"))...)
			plain := plainTwin(t, m)
			run := 0
			rapid.Check(t, func(rt *rapid.T) {
				run++
				sub := fmt.Sprint("run", run)
				mc := &machine{names: names, sides: [2]string{filepath.Join(plain, sub), m.Path(sub)}}
				for _, dir := range mc.sides {
					if err := errors.Join(os.Mkdir(dir, 0o755), prepare(dir)); err != nil {
						rt.Fatal(err)
					}
				}
				defer mc.finish(rt, t, filepath.Join(m.Data, sub))
				rt.Repeat(actions(mc))
			})
		})
	}
}

func (mc *machine) linkActions() map[string]func(*rapid.T) {
	version := 0
	// write opens a file, writes something that nobody has written before, and closes.
	write := func(what string, flags int) func(*rapid.T) {
		return func(rt *rapid.T) {
			version++
			name, n := rapid.SampledFrom(mc.names).Draw(rt, "name"), rapid.IntRange(1, 6).Draw(rt, "lines")
			data := []byte(strings.Repeat(fmt.Sprintf("%d\n", version), n))
			mc.both(rt, fmt.Sprintf("%s %s %q", what, name, data), func(_ int, at func(string) string) error {
				fd, err := unix.Open(at(name), flags|unix.O_CLOEXEC, 0o644)
				if err != nil {
					return err
				}
				_, err = unix.Write(fd, data)
				return errors.Join(err, unix.Close(fd))
			})
		}
	}
	return map[string]func(*rapid.T){
		"save":   write("save", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC),
		"append": write("append", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND),
		"update": write("update", unix.O_RDWR),
		"link":   mc.onNames("link", unix.Link),
		"link2":  mc.onNames("link", unix.Link),
		"rename": mc.onNames("rename", unix.Rename),
		"exchange": mc.onNames("exchange", func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}),
		"unlink":   mc.onName("unlink", unix.Unlink),
		"truncate": mc.onName("truncate", func(path string) error { return unix.Truncate(path, 3) }),
		"chmod":    mc.onName("chmod", func(path string) error { return unix.Chmod(path, 0o640) }),
		"careful": mc.onNames("write x, rename", func(a, b string) error {
			x := filepath.Join(filepath.Dir(a), "x")
			return errors.Join(os.WriteFile(x, []byte(fmt.Sprint("careful ", version, "\n")), 0o644), unix.Rename(x, b))
		}),
		"hold": func(rt *rapid.T) {
			if len(mc.fds) > 2 {
				mc.closeFD(rt, 0)
			}
			var pair fdPair
			n := rapid.SampledFrom(mc.names).Draw(rt, "name")
			if mc.both(rt, "hold open "+n, func(side int, at func(string) string) (err error) {
				pair.fds[side], err = unix.Open(at(n), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				return err
			}) {
				mc.fds = append(mc.fds, pair)
			}
		},
	}
}

// randomPrograms sets how many programs rapid tries, and keeps it from writing
// the failed ones into the source tree: the transcript tells enough.
func randomPrograms(t *testing.T, n int) {
	t.Helper()
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(n), "rapid.nofailfile": "true"} {
		before := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, before) })
	}
}

// both performs a call on either side and compares the errnos.
func (mc *machine) both(rt *rapid.T, what string, call func(side int, at func(string) string) error) bool {
	var got [2]string
	for side, dir := range mc.sides {
		got[side] = errnoName(call(side, func(name string) string { return filepath.Join(dir, name) }))
	}
	mc.log = append(mc.log, fmt.Sprintf("%s: %s", what, got[0]))
	if got[0] != got[1] {
		rt.Fatalf("%s: %s on the mount\nafter:\n%q", mc.log[len(mc.log)-1], got[1], mc.log)
	}
	return got[0] == "ok"
}

func (mc *machine) actions(t *testing.T) map[string]func(*rapid.T) {
	name := func(rt *rapid.T, label string) string { return rapid.SampledFrom(mc.names).Draw(rt, label) }
	data := rapid.SliceOfN(rapid.ByteRange('a', 'z'), 1, 40)
	return map[string]func(*rapid.T){
		"": func(rt *rapid.T) { mc.compare(rt, t) },
		"open": func(rt *rapid.T) {
			if len(mc.fds) > 3 {
				rt.Skip("enough descriptors")
			}
			n, flags := name(rt, "name"), rapid.SampledFrom(openModes).Draw(rt, "flags")
			var pair fdPair
			if mc.both(rt, fmt.Sprintf("open %s %#x", n, flags), func(side int, at func(string) string) (err error) {
				pair.fds[side], err = unix.Open(at(n), flags|unix.O_CLOEXEC, 0o644)
				return err
			}) {
				mc.fds = append(mc.fds, pair)
			}
		},
		"pwrite": func(rt *rapid.T) {
			i, b, off := mc.drawFD(rt), data.Draw(rt, "data"), rapid.Int64Range(0, 60).Draw(rt, "offset")
			mc.both(rt, fmt.Sprintf("pwrite %d %q at %d", i, b, off), func(side int, _ func(string) string) error {
				_, err := unix.Pwrite(mc.fds[i].fds[side], b, off)
				return err
			})
		},
		"ftruncate": func(rt *rapid.T) {
			i, size := mc.drawFD(rt), rapid.Int64Range(0, 80).Draw(rt, "size")
			mc.both(rt, fmt.Sprintf("ftruncate %d to %d", i, size), func(side int, _ func(string) string) error {
				return unix.Ftruncate(mc.fds[i].fds[side], size)
			})
		},
		"fchmod": func(rt *rapid.T) {
			i, mode := mc.drawFD(rt), rapid.SampledFrom([]uint32{0o600, 0o644, 0o755}).Draw(rt, "mode")
			mc.both(rt, fmt.Sprintf("fchmod %d %o", i, mode), func(side int, _ func(string) string) error {
				return unix.Fchmod(mc.fds[i].fds[side], mode)
			})
		},
		"fsync": func(rt *rapid.T) {
			i := mc.drawFD(rt)
			mc.both(rt, fmt.Sprintf("fsync %d", i), func(side int, _ func(string) string) error { return unix.Fsync(mc.fds[i].fds[side]) })
		},
		"dup": func(rt *rapid.T) {
			i := mc.drawFD(rt)
			var pair fdPair
			if mc.both(rt, fmt.Sprintf("dup %d", i), func(side int, _ func(string) string) (err error) {
				pair.fds[side], err = unix.Dup(mc.fds[i].fds[side])
				return err
			}) {
				mc.fds = append(mc.fds, pair)
			}
		},
		"close":    func(rt *rapid.T) { mc.closeFD(rt, mc.drawFD(rt)) },
		"truncate": mc.onName("truncate", func(path string) error { return unix.Truncate(path, 7) }),
		"unlink":   mc.onName("unlink", unix.Unlink),
		"mkdir":    mc.onName("mkdir", func(path string) error { return unix.Mkdir(path, 0o755) }),
		"rmdir":    mc.onName("rmdir", unix.Rmdir),
		"chmod":    mc.onName("chmod", func(path string) error { return unix.Chmod(path, 0o640) }),
		"symlink":  mc.onName("symlink", func(path string) error { return unix.Symlink("a", path) }),
		"save":     mc.onName("save", func(path string) error { return os.WriteFile(path, []byte("saved"), 0o644) }),
		"rename":   mc.onNames("rename", func(a, b string) error { return unix.Rename(a, b) }),
		"noreplace": mc.onNames("rename noreplace", func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
		}),
		"exchange": mc.onNames("exchange", func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}),
	}
}

func (mc *machine) onName(what string, call func(path string) error) func(*rapid.T) {
	return func(rt *rapid.T) {
		n := rapid.SampledFrom(mc.names).Draw(rt, "name")
		mc.both(rt, what+" "+n, func(_ int, at func(string) string) error { return call(at(n)) })
	}
}

func (mc *machine) onNames(what string, call func(from, to string) error) func(*rapid.T) {
	return func(rt *rapid.T) {
		a := rapid.SampledFrom(mc.names).Draw(rt, "from")
		b := rapid.SampledFrom(mc.names).Draw(rt, "to")
		mc.both(rt, fmt.Sprintf("%s %s %s", what, a, b), func(_ int, at func(string) string) error { return call(at(a), at(b)) })
	}
}

func (mc *machine) drawFD(rt *rapid.T) int {
	if len(mc.fds) == 0 {
		rt.Skip("nothing is open")
	}
	return rapid.IntRange(0, len(mc.fds)-1).Draw(rt, "fd")
}

func (mc *machine) closeFD(rt *rapid.T, i int) {
	pair := mc.fds[i]
	mc.fds = slices.Delete(mc.fds, i, i+1)
	mc.both(rt, fmt.Sprintf("close %d", i), func(side int, _ func(string) string) error { return unix.Close(pair.fds[side]) })
}

// compare looks at the tree as the process sees it, unfinished writes included,
// and at every open descriptor.
func (mc *machine) compare(rt *rapid.T, t *testing.T) {
	if d := cmp.Diff(treeOf(t, mc.sides[0]), treeOf(t, mc.sides[1])); d != "" {
		rt.Fatalf("the tree differs (-plain +mount):\n%s\nafter:\n%q", d, mc.log)
	}
	for i, pair := range mc.fds {
		var got [2]string
		for side, fd := range pair.fds {
			var st unix.Stat_t
			buf := make([]byte, 200)
			err := unix.Fstat(fd, &st)
			n, _ := unix.Pread(fd, buf, 0)
			got[side] = fmt.Sprintf("%s %q %s", statLine(&st), buf[:max(n, 0)], errnoName(err))
		}
		if got[0] != got[1] {
			rt.Fatalf("descriptor %d differs: plain %s, mount %s\nafter:\n%q", i, got[0], got[1], mc.log)
		}
	}
}

// finish closes everything and compares what is left, around the mount too.
func (mc *machine) finish(rt *rapid.T, t *testing.T, backing string) {
	for _, pair := range mc.fds {
		for _, fd := range pair.fds {
			unix.Close(fd)
		}
	}
	if rt.Failed() {
		return
	}
	want := treeOf(t, mc.sides[0])
	for what, dir := range map[string]string{"through": mc.sides[1], "under": backing} {
		if d := cmp.Diff(want, treeOf(t, dir)); d != "" {
			rt.Fatalf("the tree at the end differs, %s the mount (-plain +mount):\n%s\nafter:\n%q", what, d, mc.log)
		}
	}
}
