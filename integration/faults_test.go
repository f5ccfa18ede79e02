package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The daemon is killed before each of its steps, or each of them fails, while a
// program does one thing. Afterwards its directory is in one of the states that
// the scenario allows, the last one if the program was told that all is well.

// faultScenario is what one program does in a directory of its own.
type faultScenario struct {
	name    string
	setup   string // bash, makes the first state
	program string // python
	states  []dirState
	modes   bool // the states' contents begin with the mode

	// What an error may lead to besides, because the program goes on after it:
	// a state of its making, or success in the end.
	onError []dirState
	retries bool

	inPlace bool // where every step fails, the file may stay half written until it is opened
	policy  string
}

// dirState is what a directory holds: content by name.
type dirState map[string]string

const (
	oldText, newText = "old\n", "new, and longer\n"
	// largeHole makes a file larger than what is copied when it is opened.
	largeHole = 17 << 20
)

var (
	longLine = strings.Repeat("y", 5000) + "\n"
	longText = strings.Repeat(oldText, 1000)
	large    = strings.Repeat("\x00", largeHole) + oldText
)

var faultScenarios = []faultScenario{
	{name: "new file", program: `save("f")`, states: []dirState{{}, {"f": newText}}},
	{name: "replace", setup: `echo old > f`, program: `save("f")`,
		states: []dirState{{"f": oldText}, {"f": newText}}},
	{name: "update", setup: `echo old > f`, states: []dirState{{"f": oldText}, {"f": "OLD\n"}},
		program: `with open("f", "r+") as f: f.write("OLD")`},
	{name: "large", setup: `truncate -s ` + fmt.Sprint(largeHole) + ` f; echo old >> f`,
		program: `with open("f", "r+") as f: f.write("LARGE"); f.seek(0, 2); f.write("end\n")`,
		states:  []dirState{{"f": large}, {"f": "LARGE" + large[5:] + "end\n"}}},
	{name: "in place", setup: `yes old | head -n 1000 > f; ln f g`, program: `save("f")`, // longer than what is copied over it
		states:  []dirState{{"f": longText, "g": longText}, {"f": newText, "g": newText}},
		inPlace: true},
	{name: "rename", setup: `echo old > f`, program: `save("t"); os.rename("t", "f")`,
		states: []dirState{{"f": oldText}, {"f": oldText, "t": newText}, {"f": newText}}},
	{name: "rename away", setup: `echo old > f`, program: `os.rename("f", "f~"); save("f")`,
		states: []dirState{{"f": oldText}, {"f~": oldText}, {"f~": oldText, "f": newText}}},
	{name: "unlink", setup: `echo old > f`, program: `os.unlink("f")`, states: []dirState{{"f": oldText}, {}}},
	{name: "append", setup: `echo old > f`, program: `
with open("f", "a") as f:
    for line in "one", "two", "three":
        print(line, file=f, flush=True)`,
		states:  []dirState{{"f": "old\n"}, {"f": "old\none\n"}, {"f": "old\none\ntwo\n"}, {"f": "old\none\ntwo\nthree\n"}},
		retries: true},
	{name: "append in pieces", program: `
fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
for piece in b"half ", b"a line\n", b"y" * 5000 + b"\n", b"no newline":
    os.write(fd, piece)
os.close(fd)`,
		states:  []dirState{{}, {"log": ""}, {"log": "half a line\n"}, {"log": "half a line\n" + longLine}, {"log": "half a line\n" + longLine + "no newline"}},
		onError: []dirState{{"log": "half "}},
		retries: true},
	{name: "chmod in session", setup: `echo old > f; chmod 600 f`, modes: true, program: `
with open("f", "w") as f:
    f.write(NEW)
    f.flush()
    os.fchmod(f.fileno(), 0o640)`,
		states:  []dirState{{"f": "600 " + oldText}, {"f": "640 " + newText}},
		onError: []dirState{{"f": "600 " + newText}}},
	{name: "metadata", setup: `echo old > f; chmod 600 f`, modes: true, program: `os.chmod("f", 0o640)`,
		states: []dirState{{"f": "600 " + oldText}, {"f": "640 " + oldText}}},
	{name: "truncate", setup: `echo old > f`, program: `os.truncate("f", 2)`,
		states: []dirState{{"f": oldText}, {"f": "ol"}}},
	{name: "transaction", setup: `echo old > f; echo old > g; echo old > h; ln h k`, program: `
import subprocess
todo = '''set -e; echo new > f; echo new > t; mv t n; rm g; mkdir d; echo new > d/x; echo new > h'''
p = subprocess.run([LATCHFS, "guard", "--txn", "f", "--", "sh", "-c", todo], capture_output=True)
if p.returncode: raise OSError(errno.EIO, p.stderr)`,
		states: []dirState{
			{"f": oldText, "g": oldText, "h": oldText, "k": oldText},
			{"f": "new\n", "n": "new\n", "d/": "", "d/x": "new\n", "h": "new\n", "k": "new\n"},
		}},
	{name: "merge", setup: `printf 'a\nb\n' > f`, policy: mergePolicy,
		program: `read("f"); others("f", "A\nb\n"); save("f", "a\nB\n")`,
		states:  []dirState{{"f": "a\nb\n"}, {"f": "A\nb\n"}, {"f": "A\nB\n"}}},
	{name: "merge at rename", setup: `printf 'a\nb\n' > f`, policy: mergePolicy,
		program: `read("f"); save("t", "a\nB\n"); others("f", "A\nb\n"); os.rename("t", "f")`,
		states: []dirState{{"f": "a\nb\n"}, {"f": "a\nb\n", "t": "a\nB\n"}, {"f": "A\nb\n", "t": "a\nB\n"},
			{"f": "A\nb\n", "t": "A\nB\n"}, {"f": "A\nB\n"}}},
	{name: "directory", program: `os.mkdir("d"); save("d/f"); os.rename("d", "e")`,
		states: []dirState{{}, {"d/": ""}, {"d/": "", "d/f": newText}, {"e/": "", "e/f": newText}}},
}

// faultPrelude ends a program at its first error with that error's name.
const faultPrelude = `
import errno, os, socket, sys
NEW = ` + "'''" + newText + "'''" + `
LATCHFS = sys.argv[2]
def save(name, content=NEW):
    with open(name, "w") as f: f.write(content)
def read(name):
    with open(name) as f: return f.read()
def others(name, content): # saved by a program that was started elsewhere
    c = socket.socket(socket.AF_UNIX)
    c.connect(sys.argv[3])
    c.sendall("\0".join([os.path.abspath(name), content]).encode())
    c.shutdown(socket.SHUT_WR)
    e = int(c.recv(10))
    if e: raise OSError(e, "somebody else")
def hook(kind, e, tb):
    print(errno.errorcode.get(getattr(e, "errno", None), repr(e)))
sys.excepthook = hook
os.chdir(sys.argv[1]) # the daemon may be dead already: of what it did later for the setup
`

// faultOther saves what it is asked to, once, and answers with the error's number.
const faultOther = `
import os, socket, sys
l = socket.socket(socket.AF_UNIX)
l.bind(sys.argv[1]); l.listen()
print("listening", flush=True)
c, _ = l.accept()
name, content = c.makefile().read().split("\0")
try:
    with open(name, "w") as f: f.write(content)
    c.sendall(b"0")
except OSError as e:
    c.sendall(str(e.errno).encode())
`

// prepare makes the scenario's directory in its first state.
func (sc *faultScenario) prepare(t *testing.T, m *Mount, dir string) {
	t.Helper()
	if o := m.Bash(t, `set -e; mkdir "$1"; cd "$1"; `+sc.setup, dir); o.Code != 0 {
		t.Fatalf("setting up: %s", o.Stderr)
	}
}

// run runs the program, which prints an error's name unless all went well.
func (sc *faultScenario) run(t *testing.T, m *Mount, dir string) (complaint string) {
	t.Helper()
	other := ""
	if strings.Contains(sc.program, "others(") {
		other = filepath.Join(m.Home(), "other")
		os.Remove(other)
		p := m.launchOutside(t, faultOther, other)
		defer p.Kill()
		p.AwaitOutput("listening")
	}
	o := m.launchOutside(t, faultPrelude+sc.program, filepath.Join(m.Dir, dir), bench.binary, other).Wait()
	if o.Code != 0 && o.Stdout == "" {
		t.Fatalf("the program ended with %d %v: %s", o.Code, o.Signal, o.Stderr)
	}
	return strings.TrimSpace(o.Stdout)
}

// check returns which of the states the directory is in.
func (sc *faultScenario) check(t *testing.T, m *Mount, dir, complaint string, states ...dirState) int {
	t.Helper()
	found, err := sc.look(filepath.Join(m.Data, dir))
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for i, s := range states {
		if fmt.Sprint(s) == fmt.Sprint(found) {
			at = i
		}
	}
	last := len(sc.states) - 1
	switch {
	case at < 0:
		t.Errorf("after %q the directory is in no allowed state: %.2000q", complaint, fmt.Sprint(found))
	case complaint == "" && at != last:
		t.Errorf("the program succeeded, and the directory is in state %d of %d", at, last)
	}
	return at
}

// look reads the directory from underneath.
func (sc *faultScenario) look(dir string) (dirState, error) {
	found := dirState{}
	return found, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		reserved := strings.HasPrefix(d.Name(), ".latchfs-") // looked for separately
		switch {
		case d.IsDir() && reserved:
			return fs.SkipDir
		case d.IsDir():
			found[name+"/"] = ""
			return nil
		case reserved:
			return nil
		}
		b, err := os.ReadFile(path)
		found[name] = string(b)
		if st, e := d.Info(); sc.modes && e == nil {
			found[name] = fmt.Sprintf("%o %s", st.Mode().Perm(), b)
		}
		return err
	})
}

// awaitSwept waits until nothing of latchfs's own lies between the files any more.
func (m *Mount) awaitSwept(t *testing.T) {
	t.Helper()
	eventually(t, "no reserved names in the data", func() bool {
		left, err := reservedNames(m.Data)
		return err == nil && len(left) == 0
	})
}

// inMemory puts the data directory on a filesystem that takes no time to sync.
func inMemory(t *testing.T) mountOption {
	where := ""
	t.Cleanup(func() {
		if where != "" {
			unix.Unmount(where, unix.MNT_DETACH)
		}
	})
	return withSeed(func(data string) error {
		if err := unix.Mount("tmpfs", data, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
		where = data
		return nil
	})
}

// forEachFault runs test for every scenario on every kind of mount. Whoever tries
// something else each time goes by turn.
func forEachFault(t *testing.T, test func(t *testing.T, m *Mount, f *faults, sc *faultScenario, turn int)) {
	t.Helper()
	turn := 0
	for _, kind := range []mountOption{func(*mountOptions) {}, noPassthrough(), asUser()} {
		var o mountOptions
		kind(&o)
		name := o.name
		if name == "" {
			name = "root"
		}
		t.Run(name, func(t *testing.T) {
			for i := range faultScenarios {
				sc := &faultScenarios[i]
				if sc.policy == "" { // what is merged takes its turn with what is before it
					turn++
				}
				turn := turn
				t.Run(sc.name, func(t *testing.T) {
					alongside(t)
					f := newFaults(t)
					opts := []mountOption{kind, withFaults(f), errorsInLog(), withPolicy(sc.policy)}
					if name != "root" && !stress() {
						opts = append(opts, inMemory(t))
					}
					test(t, mount(t, opts...), f, sc, turn)
				})
			}
		})
	}
}

// stride is how far the next step that is tried is from the last one: where the steps
// are the same as with passthrough, by default every fourth one on average.
func stride(m *Mount, chance *rand.Rand) int {
	if m.Name == "root" || stress() {
		return 1
	}
	return 1 + chance.IntN(7)
}

// TestKilledAtEveryStep kills the daemon before each step.
func TestKilledAtEveryStep(t *testing.T) {
	inTestAll(t)
	alongside(t)
	forEachFault(t, func(t *testing.T, m *Mount, f *faults, sc *faultScenario, _ int) {
		chance := drawn(t)
		for n := 1; ; n += stride(m, chance) {
			dir := fmt.Sprint("n", n)
			sc.prepare(t, m, dir)
			f.arm(faultPlan{at: n})
			complaint := sc.run(t, m, dir)
			steps, hit := f.disarm()
			if hit {
				m.Crash(t) // it is dying: this waits for the end
				m.Start(t)
			}
			at := sc.check(t, m, dir, complaint, sc.states...)
			m.awaitSwept(t)
			t.Logf("killed before step %d: %q: state %d, %q", n, steps, at, complaint)
			if !hit && complaint != "" {
				t.Errorf("without a fault: %s", complaint)
			}
			if t.Failed() || !hit {
				return
			}
		}
	})
}

// TestErrorAtEveryStep has each step fail: the program sees an error, and then
// the old version is there, or the new one, complete, and EIO says that it may
// not be on disk; or latchfs can do without the step. The next save works, but for what it
// is told of what was to be put on the disk in the background.
func TestErrorAtEveryStep(t *testing.T) {
	inTestAll(t)
	alongside(t)
	kinds := []faultPlan{{errno: syscall.EIO}, {errno: syscall.ENOSPC}, {errno: syscall.EDQUOT}, {errno: syscall.ENOSPC, rest: true}}
	forEachFault(t, func(t *testing.T, m *Mount, f *faults, sc *faultScenario, turn int) {
		for i := range kinds {
			if stress() || i == turn%len(kinds) {
				errorAtEveryStep(t, m, f, sc, kinds[i])
			}
		}
		m.Stop(t)
		m.Start(t)
		m.awaitSwept(t)
		checkSaved(t, m)
	})
}

func errorAtEveryStep(t *testing.T, m *Mount, f *faults, sc *faultScenario, plan faultPlan) {
	chance := drawn(t)
	for plan.at = 1; !t.Failed(); plan.at += stride(m, chance) {
		dir := fmt.Sprintf("%d-%v-%d", plan.errno, plan.rest, plan.at)
		sc.prepare(t, m, dir)
		f.arm(plan)
		complaint := sc.run(t, m, dir)
		steps, hit := f.disarm()
		if complaint == "EIO" && plan.rest && sc.inPlace {
			m.ReadFile(filepath.Join(dir, "f")) // half written if that could be: this finishes it
		}
		at := sc.check(t, m, dir, complaint, append(sc.states, sc.onError...)...)
		t.Logf("%v: %q: state %d, %q", plan, steps, at, complaint)
		if complaint != "" && complaint != "EIO" && at == len(sc.states)-1 && !sc.retries {
			t.Errorf("%v: the program was told %s, and the new version is there", plan, complaint)
		}
		if sc.policy != "" {
			awaitCurrent(t, m, filepath.Join(dir, "f")) // so that there is nothing to merge with
		}
		if sc.inPlace {
			m.ReadFile(filepath.Join(dir, "f")) // a commit that was finished late is another's change
		}
		saveNext(t, m, dir)
		if got := m.ReadFile(filepath.Join(dir, "f")); got != "next" {
			t.Errorf("%v: after the next save the file holds %.100q", plan, got)
		}
		if !hit {
			if complaint != "" {
				t.Errorf("without a fault: %s", complaint)
			}
			return
		}
	}
}

// saveNext saves the file f of a directory once more, and that works. What was acknowledged
// there and could not be put on the disk since, the next save is told of, once: it is in
// place all the same.
func saveNext(t *testing.T, m *Mount, dir string) {
	t.Helper()
	name := filepath.Join(dir, "f")
	err := m.control.Save(name, "next")
	if err == nil {
		return
	}
	// What the disk refused is in the log: the event log lies on the same disk.
	lost := regexp.MustCompile(`msg="\\"` + regexp.QuoteMeta(dir) + `(/[^"]*)?\\": (published|renamed), but not known to be on disk: [^"\\]*"`)
	log, _ := os.ReadFile(m.Log)
	told := lost.Find(log)
	if !errors.Is(err, syscall.EIO) || told == nil {
		t.Fatalf("saving %s: %v", name, err)
	}
	if got := m.ReadFile(name); got != "next" {
		t.Errorf("the save of %s was told of %s, and the file holds %.100q", name, told, got)
	}
	m.WriteFile(name, "next")
}

// awaitCurrent reads a file until that is its current version: after a rename that was
// done and has failed all the same, the kernel may know the old one for a moment.
func awaitCurrent(t *testing.T, m *Mount, name string) {
	t.Helper()
	eventually(t, "the current version of "+name, func() bool {
		b, err := os.ReadFile(filepath.Join(m.Data, name))
		return err == nil && m.ReadFile(name) == string(b)
	})
}

// checkSaved looks whether every save after an error is there.
func checkSaved(t *testing.T, m *Mount) {
	t.Helper()
	saved, err := filepath.Glob(filepath.Join(m.Data, "*-*-*", "f"))
	if err != nil || len(saved) == 0 {
		t.Fatalf("%d files, %v", len(saved), err)
	}
	for _, f := range saved {
		if b, err := os.ReadFile(f); err != nil || string(b) != "next" {
			t.Errorf("after a restart %s holds %.100q, %v", f, b, err)
		}
	}
}

var levelError = regexp.MustCompile(`level=error`)

// errorsInLog permits errors in the log: latchfs tells of what failed.
func errorsInLog() mountOption {
	return func(o *mountOptions) { o.allowLog = append(o.allowLog, levelError) }
}
