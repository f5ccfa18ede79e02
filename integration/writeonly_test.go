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
