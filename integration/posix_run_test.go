package integration

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The POSIX suite is differential: a check is a function that acts on a
// directory and notes what a caller can see (errno, stat, contents, listings).
// It runs on a plain directory and on the mount, and the two transcripts must
// be equal, so the plain filesystem is the oracle and no expectation has to be
// written down twice. Where the mount promises something a plain directory
// does not, a test of its own says so.

// posixCheck is one function of the suite.
type posixCheck struct {
	name string
	run  func(p *probe)
}

// probe is what a check acts through: one directory, and the transcript.
type probe struct {
	dir     string // the directory under test
	backing string // the same directory without latchfs in between (on the plain side: dir)
	notes   []string
}

// probeStop carries a failure of the check itself out of its thread.
type probeStop struct{ err error }

// posixCheckLimit bounds one check; a mount that hangs must not hang the suite.
const posixCheckLimit = 60 * time.Second

// comparePosix runs each check below plain and below mount (whose files lie in
// backing) and compares what they noted. Afterwards both directories must hold
// the same tree, seen through the mount and around it.
func comparePosix(t *testing.T, plain, mount, backing string, checks []posixCheck) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			onPlain := &probe{dir: filepath.Join(plain, c.name)}
			onPlain.backing = onPlain.dir
			onMount := &probe{dir: filepath.Join(mount, c.name), backing: filepath.Join(backing, c.name)}
			for _, p := range []*probe{onPlain, onMount} {
				if err := os.Mkdir(p.dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := p.perform(c); err != nil {
					t.Fatalf("in %s: %v\nnoted before:\n%s", p.dir, err, strings.Join(p.notes, "\n"))
				}
			}
			if len(onPlain.notes) == 0 {
				t.Fatal("the check noted nothing, so it cannot fail")
			}
			if d := cmp.Diff(onPlain.notes, onMount.notes); d != "" {
				t.Errorf("the mount differs from a plain directory (-plain +mount):\n%s", d)
			}
			want := treeOf(t, onPlain.dir)
			if d := cmp.Diff(want, treeOf(t, onMount.dir)); d != "" {
				t.Errorf("tree left behind, through the mount (-plain +mount):\n%s", d)
			}
			if d := cmp.Diff(want, treeOf(t, onMount.backing)); d != "" {
				t.Errorf("tree left behind, under the mount (-plain +backing):\n%s", d)
			}
		})
	}
}

// perform runs the check on a thread whose umask, working directory and
// credentials are private to it.
func (p *probe) perform(c posixCheck) error {
	done := make(chan error, 1)
	onPrivateThread(func() {
		defer func() {
			switch r := recover().(type) {
			case nil:
			case probeStop:
				done <- r.err
			default:
				panic(r)
			}
		}()
		defer os.Chdir("/") // an idle thread must not keep the mount busy
		unix.Umask(0)
		c.run(p)
		done <- nil
	})
	select {
	case err := <-done:
		return err
	case <-time.After(posixCheckLimit):
		return errors.New("hangs")
	}
}

// idleThreads are private threads that wait for work. They never end: a child
// started by a thread that ends gets its parent-death signal, and the daemon
// under test is such a child.
var idleThreads = make(chan chan func(), 64)

// onPrivateThread runs f on a thread that shares neither working directory nor
// umask with the rest of the process. One that hangs is not used again.
func onPrivateThread(f func()) {
	select {
	case work := <-idleThreads:
		work <- f
		return
	default:
	}
	work := make(chan func(), 1)
	work <- f
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			panic(fmt.Sprintf("unshare: %v", err))
		}
		for f := range work {
			f()
			idleThreads <- work
		}
	}()
}

// at names something below the directory under test.
func (p *probe) at(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

// note writes one line of the transcript; it must not contain p.dir.
func (p *probe) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.notes = append(p.notes, strings.ReplaceAll(line, p.dir, "DIR"))
}

// must stops the check: the error is in its preparation and no finding.
func (p *probe) must(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		panic(probeStop{fmt.Errorf("%s:%d: %w", filepath.Base(file), line, err)})
	}
}

// try notes the errno of an operation and says whether it succeeded.
func (p *probe) try(what string, err error) bool {
	p.note("%s: %s", what, errnoName(err))
	return err == nil
}

// errnoName reduces an error to what a C program would see.
func errnoName(err error) string {
	var e unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return unix.ErrnoName(e)
	default:
		return err.Error()
	}
}

// write creates or rewrites a file, as the preparation of something else.
func (p *probe) write(name, content string) {
	p.must(os.WriteFile(p.at(name), []byte(content), 0o644))
}

// read notes a file's contents.
func (p *probe) read(name string) {
	b, err := os.ReadFile(p.at(name))
	p.note("%s holds %s (%s)", name, brief(b), errnoName(err))
}

// open opens a file, as the preparation of something else.
func (p *probe) open(name string, flags int, mode uint32) int {
	fd, err := unix.Open(p.at(name), flags|unix.O_CLOEXEC, mode)
	p.must(err)
	return fd
}

// close closes a descriptor and notes what close(2) said.
func (p *probe) close(what string, fd int) { p.try("close "+what, unix.Close(fd)) }

// stat notes what lstat says about names, as far as it is the same on every run.
func (p *probe) stat(names ...string) {
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Lstat(p.at(name), &st); err != nil {
			p.note("stat %s: %s", name, errnoName(err))
			continue
		}
		p.note("stat %s: %s", name, statLine(&st))
	}
}

// fstat notes what fstat says about a descriptor.
func (p *probe) fstat(what string, fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		p.note("fstat %s: %s", what, errnoName(err))
		return
	}
	p.note("fstat %s: %s", what, statLine(&st))
}

// list notes the names in a directory.
func (p *probe) list(name string) {
	entries, err := os.ReadDir(p.at(name))
	var names []string
	for _, e := range entries {
		names = append(names, e.Type().String()+e.Name())
	}
	sort.Strings(names)
	p.note("list %s: %q (%s)", name, names, errnoName(err))
}

// as runs f with the effective ids of an ordinary user, who has no
// capabilities and the given supplementary groups.
func (p *probe) as(uid, gid int, groups []int, f func()) {
	p.must(threadGroups(groups))
	p.must(threadIDs(unix.SYS_SETRESGID, gid))
	p.must(threadIDs(unix.SYS_SETRESUID, uid))
	defer func() {
		p.must(threadIDs(unix.SYS_SETRESUID, 0))
		p.must(threadIDs(unix.SYS_SETRESGID, 0))
		p.must(threadGroups(nil))
	}()
	f()
}

// threadIDs sets the effective id of this thread alone; the wrappers of
// package syscall would change the whole process.
func threadIDs(call uintptr, id int) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(call, keep, uintptr(id), keep); e != 0 {
		return e
	}
	return nil
}

// clockTick returns when the filesystem's coarse clock has moved, so that a
// timestamp taken now differs from one taken before.
func clockTick() {
	var start, now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &start)
	for now = start; now == start; {
		runtime.Gosched()
		_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now)
	}
}

// statLine renders the attributes that do not depend on the machine's history:
// no inode and device numbers, no times, no size of a directory.
func statLine(st *unix.Stat_t) string {
	line := fmt.Sprintf("%s %04o nlink=%d uid=%d gid=%d", fileType(st.Mode), st.Mode&0o7777, st.Nlink, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK:
		return fmt.Sprintf("%s size=%d", line, st.Size)
	case unix.S_IFCHR, unix.S_IFBLK:
		return fmt.Sprintf("%s rdev=%d:%d", line, unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return line
}

// fileType names the type bits of a mode.
func fileType(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFCHR:
		return "char"
	case unix.S_IFBLK:
		return "block"
	}
	return fmt.Sprintf("type %o", mode)
}

// brief shows short contents and sums up long ones.
func brief(b []byte) string {
	if len(b) <= 64 {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%d bytes, sha256 %x", len(b), sha256.Sum256(b))
}

// treeOf describes everything below dir, one line for each name: attributes,
// link target or contents. Names that latchfs reserves for itself appear like
// any other, so a shadow left behind is a difference.
func treeOf(t *testing.T, dir string) []string {
	t.Helper()
	return treeWith(t, dir, func(*unix.Stat_t) string { return "" })
}

// treeWith is treeOf with something more about each name.
func treeWith(t *testing.T, dir string, more func(*unix.Stat_t) string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%q %s", rel, statLine(&st)+more(&st))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + brief(b)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatalf("reading the tree %s: %v", dir, err)
	}
	return lines
}

// threadGroups sets the supplementary groups of this thread alone.
func threadGroups(groups []int) error {
	gids := make([]uint32, len(groups)+1) // never empty, so that there is an address
	for i, g := range groups {
		gids[i] = uint32(g)
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&gids[0])), 0)
	if e != 0 {
		return e
	}
	return nil
}
