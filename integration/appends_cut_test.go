package integration

import (
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
