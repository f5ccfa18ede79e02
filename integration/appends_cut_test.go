package integration

import "testing"

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
