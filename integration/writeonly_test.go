package integration

import (
	"strings"
	"testing"
)

// A file that its owner may write and not read is written as on a plain directory, on an
// ordinary user's own mount, too, where the daemon may not read it either.
func TestWriteOnlyFile(t *testing.T) {
	scripts := map[string]string{
		"old": `
echo a > f; chmod 200 f
echo bb > f; stat -c "%a %s" f
echo cc >> f; echo dd >> f; stat -c "%a %s" f
printf X | dd of=f bs=1 seek=1 conv=notrunc status=none; stat -c "%a %s" f
truncate -s 7 f; stat -c "%a %s" f
{ echo e; sleep .1; echo f; } >> f; stat -c "%a %s" f
exec 3>>f; echo 3 >&3; mv f g; echo 4 >&3; exec 3>&-; stat -c "%a %s" g
chmod 600 g; od -c g
chmod 200 g; : > g; stat -c "%a %s" g; truncate -s 0 g; echo last > g
chmod 600 g; cat g; echo readable >> g; cat g; echo anew > g; cat g
chmod 200 g; echo n > n; mv n g; stat -c "%a %s" g; cat g; chmod 200 g; rm -f g; ls`,
		"descriptor": `
echo a > f; exec 3>>f; chmod 200 f; echo b >&3; printf c >&3; chmod 000 f; echo d >&3; exec 3>&-; chmod 600 f; cat f
exec 3>>f; echo e >&3; chmod 200 f; echo f >&3; stat -c "%a %s" f; exec 3>&-; chmod 600 f; cat f
exec 3>>f; chmod 200 f; echo g >> f; echo h >&3; exec 3>&-; chmod 600 f; cat f
exec 3<>f; chmod 200 f; echo A >&3; exec 3>&-; chmod 600 f; cat f`,
		"new": `
umask 0577
echo drop > box; echo more >> box; stat -c "%a %s" box
echo first >> appended; echo second >> appended; stat -c "%a %s" appended
{ echo one; echo two >> both; echo three; } > both; stat -c "%a %s" both
chmod 600 box appended both; cat box appended both`,
		"one process": `"$PYTHON" -c '
import os
def write(text):
    with open("f", "w") as f: f.write(text)
write("one"); print(open("f").read())
os.chmod("f", 0o200); write("two"); os.chmod("f", 0o600)
write("three"); print(open("f").read())
os.chmod("f", 0o200)
f = os.open("f", os.O_WRONLY); os.pwrite(f, b"T", 0); os.ftruncate(f, 4); os.fsync(f)
g = os.open("f", os.O_WRONLY | os.O_APPEND); os.write(g, b"+"); os.close(g)
os.chmod("f", 0o600); print(open("f").read()); os.close(f)
write("four"); print(open("f").read())
'`,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range scripts {
			m.AsOnPlain(t, name, "bash", "-c", "export PYTHON="+bench.python+"; set -e; rm -rf w; mkdir w; cd w; "+script)
		}
		if *plain {
			return
		}
		// What was written there was written through the mount.
		if events := m.Bash(t, "sleep .5; cat .locks/events.jsonl"); strings.Contains(events.Stdout, `"bypass"`) {
			t.Error(events.Stdout)
		}
	})
}

// A version of such a file can be restored, and has its mode.
func TestRestoreWriteOnlyFile(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo one > f; chmod 200 f; echo three > new; mv new f`)
		if out := m.Latchfs(t, "restore", "f", "1"); out.Code != 0 {
			t.Errorf("%+v\n%s", out, m.Latchfs(t, "history", "f").Stdout)
		}
		if out := m.Bash(t, `stat -c %a f; chmod 600 f; cat f`); out.Stdout != "200\none\n" {
			t.Errorf("restored: %+v", out)
		}
	})
}

// A program that has a file open reads and writes it on when the file's mode lets nobody open it
// any more, be it that somebody changes the mode, or that the program has made the file so.
func TestOpenBeyondItsMode(t *testing.T) {
	const common = `
import mmap, os
R, W, RW, A, C, S = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_APPEND, os.O_CREAT | os.O_EXCL, os.O_SYNC
def old(name):
    with open(name, "w") as f: f.write("old " + name + "\n")
def show(name):
    print(name, "%o" % os.stat(name).st_mode, end=" "); os.chmod(name, 0o600); print(open(name).read())
`
	scripts := map[string]string{
		"made to be read only": `
f = os.open("f", RW | C, 0o444); os.write(f, b"one"); print(os.pread(f, 9, 0)); os.write(f, b"two"); print(os.pread(f, 9, 0))
print(mmap.mmap(f, 6, prot=mmap.PROT_READ)[:]); os.fsync(f); print(os.pread(f, 9, 0)); os.close(f); show("f")
f = os.open("g", RW | C, 0); os.write(f, b"one"); os.fsync(f); print(os.pread(f, 9, 0)); os.close(f); show("g")`,
		"made to append to it": `
for name, more in ("a", 0), ("b", S):
    f = os.open(name, W | A | C | more, 0o444); os.write(f, b"one\n"); os.write(f, b"tw"); os.write(f, b"o\nthr"); os.close(f); show(name)
f = os.open("c", RW | A | C, 0o444); os.write(f, b"one"); print(os.pread(f, 9, 0)); os.fsync(f); os.rename("c", "d"); os.write(f, b"\ntwo\n"); os.close(f); show("d")
f = os.open("e", W | A | C, 0o444); os.posix_fallocate(f, 0, 3); os.write(f, b"end\n"); os.close(f); show("e")`,
		"changed through a writer's descriptor": `
for name in "f", "f.log":
    old(name); f = os.open(name, RW); os.fchmod(f, 0o444); print(os.read(f, 3)); os.write(f, b"-"); print(os.pread(f, 9, 0)); os.close(f); show(name)
f = os.open("n", RW | C, 0o600); os.write(f, b"new"); os.fchmod(f, 0); print(os.pread(f, 9, 0)); os.fsync(f); print(os.pread(f, 9, 0)); os.close(f); show("n")`,
		"with attributes, and renamed": `
f = os.open("f", RW | C, 0o600); os.write(f, b"one"); os.setxattr(f, "user.k", b"v"); os.fchmod(f, 0o444)
os.rename("f", "g"); os.write(f, b"two"); os.close(f); print(os.getxattr("g", "user.k")); show("g")`,
		"changed by name": `
for name in "f", "f.log":
    for mode in 0, 0o200, 0o400:
        old(name); r, w = os.open(name, R), os.open(name, RW); os.chmod(name, mode)
        print(os.read(r, 3), os.read(w, 3)); os.write(w, b"-"); os.close(r); os.close(w); show(name)
old("a"); f = os.open("a", W | A); os.chmod("a", 0); os.write(f, b"more\n"); os.close(f); show("a")`,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range scripts {
			m.AsOnPlain(t, name, "bash", "-c", "rm -rf w; mkdir w; cd w; exec "+bench.python+" -c '"+common+script+"' 2>&1")
		}
	})
}
