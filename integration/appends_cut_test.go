package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What becomes of a file that a program has open to append when somebody cuts it, or saves it.

// A program that cuts, saves or reads a file to which it has appended half a line a moment ago
// finds that half there, as on a plain directory: it does not come after what was made since.
func TestUnfinishedLineBeforeItsOwnersChange(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import os, subprocess
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
def save(what):
    with open('q', 'w') as f: f.write(what)
def renamed(what):
    with open('t', 'w') as f: f.write(what)
    os.rename('t', 'q')
def cut(how):
    f = os.open('q', how); os.ftruncate(f, 2); os.close(f)
def opened_before(fd):
    f = os.open('q', os.O_RDWR); os.write(fd, b'more'); os.ftruncate(f, 7); os.close(f)
def later(fd):
    f = os.open('q', os.O_RDWR); os.write(fd, b'half'); os.ftruncate(f, 11); os.close(f)
def reads(fd):
    with open('q', 'r+') as f: print(repr(f.read()))
changes = {
    'truncate': lambda fd: os.truncate('q', 0),
    'ftruncate': lambda fd: cut(os.O_RDWR),
    'of another append descriptor': lambda fd: cut(APPEND),
    'by a descriptor of before': opened_before,
    'half a line of later': later,
    'save': lambda fd: save('new\n'),
    'rename': lambda fd: renamed('new\n'),
    'by a child': lambda fd: subprocess.run('truncate -s 1 q', shell=True, check=True),
    'save of a child': lambda fd: subprocess.run('echo new > q', shell=True, check=True),
    'reads': reads,
    'twice': lambda fd: (save('one\n'), os.write(fd, b'half'), os.truncate('q', 6)),
    'save after a rename': lambda fd: (renamed('one\n'), os.write(fd, b'half'), save('new\n')),
}
for name, change in changes.items():
    save('init\n')
    fd = os.open('q', APPEND)
    os.write(fd, b'part')
    change(fd)
    if 'rename' not in name: os.write(fd, b'end\n') # there a plain directory has it in the replaced file
    os.close(fd)
    print(name, open('q', 'rb').read())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}

// A program that has removed the file which it has open to append cuts it as on a plain
// directory, although it has read it. Whoever reads and saves a new file of the name is not
// told that this was changed.
func TestAppenderCutsItsRemovedFile(t *testing.T) {
	const script = `
import os, sys
fd = os.open('q', os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.pread(fd, 1, 0)
os.write(fd, b'0123456789\n')
os.unlink('q')
print('removed', flush=True)
sys.stdin.readline()
os.ftruncate(fd, 5)
os.write(fd, b'end\n')
print(os.fstat(fd).st_size, os.pread(fd, 100, 0), flush=True)
sys.stdin.readline()
os.close(fd)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, save := range map[string]string{"nothing": ":", "new file": "echo other > q", "later": "sleep 2.1; echo other > q"} {
			p, other := m.LaunchPython(t, script), m.Family(t)
			p.AwaitLine("removed")
			other.OK(save + "; x=$(cat q || :)")
			p.Send("cut")
			p.AwaitLine(`9 b'01234end\n'`)
			other.OK(`echo "$x and more" > q`)
			p.Send("close")
			p.OK()
			if got := m.ReadFile("q"); !strings.HasSuffix(got, "and more\n") {
				t.Errorf("%s: q holds %q", name, got)
			}
			other.OK("rm q")
		}
		noAlarm(t, m)
	})
}

// appendService has argv[1] open to append and to read, and does with it what it is told.
const appendService = `
import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
def cut(size):
    try: os.ftruncate(fd, size)
    except OSError as e: return e.strerror
    return 'cut'
def child(command): return subprocess.run(command, shell=True).returncode
print('opened', flush=True)
for n, line in enumerate(sys.stdin): print(n, eval(line), flush=True)
`

// tell has an appendService do something, and waits for its answer.
func tell(p *Proc, n int, command, answer string) {
	p.t.Helper()
	p.Send(command)
	p.AwaitLine(fmt.Sprint(n, " ", answer))
}

// A program that has a file open to append means the version that it has opened, or has last
// appended to, when it cuts the file. One that others have saved since is not cut without a
// word: that is refused like every lost update, and obeyed when the program insists.
func TestAppenderDoesNotCutWhatOthersHaveSaved(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, save := range map[string]string{"renamed": "echo precious > t; mv t NAME", "written": "echo precious > NAME", "twice": "echo a > NAME; ln NAME link; echo precious > NAME; echo line >> NAME"} {
			m.WriteFile(name, "old\n")
			p, other := m.LaunchPython(t, appendService, name), m.Family(t)
			p.AwaitLine("opened")
			tell(p, 0, "os.write(fd, b'line\\n')", "5")
			other.OK(strings.ReplaceAll(save, "NAME", name))
			want := m.below(t, name)
			tell(p, 1, "cut(0)", "Device or resource busy")
			if got := m.below(t, name); got != want {
				t.Errorf("%s: the file holds %q after the refusal", name, got)
			}
			tell(p, 2, "'since this program opened or appended to it' in open('.locks/why').read()", "True")
			if len(m.EventsOf("conflict", name)) != 1 {
				t.Errorf("%s: no event of the refusal", name)
			}
			tell(p, 3, "__import__('time').sleep(1.2)", "None")
			tell(p, 4, "cut(2)", "cut")
			if got := m.ReadFile(name); got != want[:2] {
				t.Errorf("%s: the file holds %q after the program has insisted", name, got)
			}
			if len(m.EventsOf("lost_update", name)) != 1 {
				t.Errorf("%s: no event of the change that the program insisted on", name)
			}
			if kept := m.lastKept(t, name); kept != want {
				t.Errorf("%s: the history has kept %q", name, kept)
			}
			p.Close()
			p.OK()
		}
	})
}

// Two programs store what they have in turn, as Perl's Storable does: each opens the file to append,
// waits for its flock, and cuts it then. What is there in the end is what the last one has stored.
func TestLockedAppenderReplacesWhatOthersStored(t *testing.T) {
	const script = `
import fcntl, sys
with open("f", "a") as f:
    print("opened", flush=True)
    sys.stdin.readline()
    fcntl.flock(f, fcntl.LOCK_EX)
    f.truncate(0)
    f.write(sys.argv[1])
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		first, second := m.LaunchPython(t, script, "first\n"), m.LaunchPython(t, script, "second\n")
		for _, p := range []*Proc{first, second} {
			p.AwaitLine("opened")
		}
		for _, p := range []*Proc{first, second} {
			p.Close()
			p.OK()
		}
		if got := m.ReadFile("f"); got != "second\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// below is what the data directory has in a file: nobody has read that through the mount then.
func (m *Mount) below(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(m.Data, name))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// lastKept is what the history has kept of the version before the current one.
func (m *Mount) lastKept(t *testing.T, name string) string {
	t.Helper()
	list := m.Versions(name)
	if len(list) < 2 {
		t.Errorf("%s has %d versions", name, len(list))
		return ""
	}
	return m.ReadFile(fmt.Sprintf(".locks/history/%s/%d", name, list[len(list)-2].Version))
}

// A cut of what the program and its children have made, of lines that others have appended, and
// of what the program has looked at, appended to or just moved, goes through at once. What it
// removes is in the history.
func TestAppenderCutsItsLog(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range []struct{ name, own, others, then, at string }{
			{"alone", "os.write(fd, b'line\\n')", "", "", ""},
			{"emptied by a child", "child('cp log copy; : > log; echo mine > log')", "", "", ""},
			{"saved by a child", "child('echo mine > t; mv t log')", "", "", ""},
			{"saved by a child after others", "0", "echo new > log", "child('echo mine > t; mv t log')", ""},
			{"lines of others", "0", "echo line >> log", "", ""},
			{"appended to since", "0", "echo new > log", "os.write(fd, b'line\\n')", ""},
			{"read since", "0", "echo new > t; mv t log", "os.pread(fd, 9, 0)", ""},
			{"moved by others", "0", "mv log log.1", "", "log.1"},
			{"moved and made by others", "0", "mv log log.1; echo new > log", "", "log.1"},
			{"moved after a save", "0", "echo new > log", "(os.write(fd, b'line\\n'), child('mv log log.1'))", "log.1"},
		} {
			other := m.Family(t)
			other.OK("rm -f log*; echo old > log")
			p := m.LaunchPython(t, appendService, "log")
			p.AwaitLine("opened")
			tell(p, 0, "('done', "+c.own+")[0]", "done")
			if c.others != "" {
				other.OK(c.others)
			}
			tell(p, 1, "('done', "+cmp.Or(c.then, "0")+")[0]", "done")
			at := cmp.Or(c.at, "log")
			was := m.below(t, at)
			tell(p, 2, "cut(1)", "cut")
			if got := m.ReadFile(at); got != was[:1] {
				t.Errorf("%s: the file holds %q, not %q", c.name, got, was[:1])
			}
			if kept := m.lastKept(t, at); kept != was {
				t.Errorf("%s: the history has kept %q, not %q", c.name, kept, was)
			}
			tell(p, 3, "os.write(fd, b'end\\n')", "4")
			p.Close()
			p.OK()
			if got := m.ReadFile(at); got != was[:1]+"end\n" {
				t.Errorf("%s: the file holds %q in the end", c.name, got)
			}
			if list := m.Versions(at); list[len(list)-1].Operation != "truncate" {
				t.Errorf("%s: the last version is %+v", c.name, list[len(list)-1])
			}
		}
		noAlarm(t, m)
	})
}

// A program that reads a file, and stores it later as Perl's Storable does, does not look whether
// its cut was made. What others have stored meanwhile stays as it is: what the program would
// append to it is refused, and kept.
func TestNothingIsAppendedAfterARefusedCut(t *testing.T) {
	const script = `
import fcntl, os, sys
with open("f") as f: n = int(f.read())
print("read", flush=True)
sys.stdin.readline()
fd = os.open("f", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
try: os.ftruncate(fd, 0)
except OSError: pass
try: os.write(fd, b"%s %d\n" % (sys.argv[1].encode(), n + 1))
except OSError as e: print(e.strerror)
os.close(fd)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0\n")
		first, second := m.LaunchPython(t, script, "first"), m.LaunchPython(t, script, "second")
		for _, p := range []*Proc{first, second} {
			p.AwaitLine("read")
		}
		first.Close()
		first.OK()
		second.Send("store")
		second.AwaitLine("Device or resource busy")
		second.OK()
		if got := m.ReadFile("f"); got != "first 1\n" {
			t.Errorf("the file holds %q", got)
		}
		if kept := m.Family(t).OK(`cat .locks/rejected/*/content`); !strings.Contains(kept, "second 1\n") {
			t.Errorf("kept is %q", kept)
		}
	})
}
