package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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
	dir   string // the directory under test, made by perform
	uid   int    // whom the check runs as
	notes []string
	tree  []string // what it left
}

// probeStop carries a failure of the check itself out of its thread.
type probeStop struct{ err error }

// errNeedsRoot stops a check that acts as several users when nobody but one may.
var errNeedsRoot = errors.New("needs root")

// posixCheckLimit bounds one check; a mount that hangs must not hang the suite.
const posixCheckLimit = 60 * time.Second

// comparePosix runs each check below plain and on the mount, as the mount's
// user, and compares what they noted. Afterwards both directories must hold the
// same tree, seen through the mount and around it.
func comparePosix(t *testing.T, plain string, m *Mount, checks []posixCheck) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			onPlain := &probe{dir: filepath.Join(plain, c.name), uid: m.UID}
			onMount := &probe{dir: m.Path(c.name), uid: m.UID}
			for _, p := range []*probe{onPlain, onMount} {
				err := p.perform(c)
				if errors.Is(err, errNeedsRoot) {
					t.Log("left out: it acts as several users, and this mount has one")
					return
				}
				if err != nil {
					t.Fatalf("in %s: %v\nnoted before:\n%s", p.dir, err, strings.Join(p.notes, "\n"))
				}
			}
			if len(onPlain.notes) == 0 {
				t.Fatal("the check noted nothing, so it cannot fail")
			}
			if d := cmp.Diff(onPlain.notes, onMount.notes); d != "" {
				t.Errorf("the mount differs from a plain directory (-plain +mount):\n%s", d)
			}
			if d := cmp.Diff(onPlain.tree, onMount.tree); d != "" {
				t.Errorf("tree left behind, through the mount (-plain +mount):\n%s", d)
			}
			if d := cmp.Diff(treeOf(t, onPlain.dir), treeOf(t, filepath.Join(m.Data, c.name))); d != "" {
				t.Errorf("tree left behind, under the mount (-plain +backing):\n%s", d)
			}
		})
	}
}

// perform runs the check on a thread whose umask, working directory and
// credentials are private to it.
func (p *probe) perform(c posixCheck) error {
	done := make(chan error, 1)
	onPrivateThread(p.uid, func() {
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
		p.must(os.Mkdir(p.dir, 0o755))
		c.run(p)
		tree, err := readTree(p.dir, func(*unix.Stat_t) string { return "" })
		p.must(err)
		p.tree = tree
		done <- nil
	})
	select {
	case err := <-done:
		return err
	case <-time.After(posixCheckLimit):
		return errors.New("hangs")
	}
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

// needsRoot stops a check whose preparation an ordinary user cannot do.
func (p *probe) needsRoot() {
	if p.uid != 0 {
		panic(probeStop{errNeedsRoot})
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
	slices.Sort(names)
	p.note("list %s: %q (%s)", name, names, errnoName(err))
}

// as runs f with the effective ids of an ordinary user, who has no
// capabilities and the given supplementary groups.
func (p *probe) as(uid, gid int, groups []int, f func()) {
	p.needsRoot()
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
