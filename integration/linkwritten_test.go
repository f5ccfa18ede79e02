package integration

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A file that gets a further name while its program has it open for writing is that program's
// until the last close: what it writes by any name and any descriptor is what is there on a
// plain directory, and nobody is told that the file was changed outside the mount.
func TestWrittenBesideTheDescriptorThatWasLinked(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const open = `printf 0123456789 > f; exec 3<>f; printf AB >&3; ln f g; `
	scripts := map[string]string{
		"saved":            open + `printf 'second writer' > f; printf Q >&3; exec 3>&-`,
		"saved by another": open + `printf 'second writer' > g; printf Q >&3; exec 3>&-`,
		"updated":          open + `exec 4<>g; printf xy >&4; printf Q >&3; cat f g; exec 4>&-; printf R >&3; exec 3>&-`,
		"by a descriptor":  open + `printf xyz > /dev/fd/3; printf Q >&3; exec 3>&-`,
		"read":             open + `printf Q >&3; cat f g; exec 3>&-`,
		"renamed":          open + `printf C >&3; echo e > e; mv g e; printf D >&3; exec 3>&-; ls`,
		"removed":          open + `printf C >&3; rm f; printf D >&3; exec 3>&-; ls`,
		"link removed":     open + `printf C >&3; rm g; printf D >&3; exec 3>&-; ls`,
		"replaced":         open + `printf C >&3; echo n > n; mv n f; printf D >&3; exec 3>&-; ls`,
		"links counted":    open + `stat -L -c %h /dev/fd/3 f g; ln g h; stat -L -c %h /dev/fd/3 h; exec 3>&-; stat -c %h f; rm g; stat -c %h f`,
		"one file":         open + `[ f -ef g ] && [ /dev/fd/3 -ef g ] && echo one; exec 3>&-; [ f -ef g ] && echo one`,
		"mode":             open + `chmod 600 g; printf Q >&3; exec 3>&-; stat -c %a f g`,
		"new":              `exec 3>f; printf AB >&3; ln f g; printf C >&3; printf n > g; printf Q >&3; exec 3>&-`,
		"new, name taken":  `exec 3>f; printf AB >&3; ln f g; rm f; printf C >&3; exec 3>&-; ls; printf D >> g`,
		"nothing written":  `printf 0123456789 > f; exec 3<>f; ln f g; printf AB >&3; printf xyz > g; printf Q >&3; exec 3>&-`,
		"never written":    `printf 0123456789 > f; exec 3<>f; ln f g; exec 3>&-; printf more >> g`,
		"cut":              `printf 0123456789 > f; exec 3>f; ln f g; printf AB >&3; exec 3>&-`,
		"by a reader":      `printf 0123456789 > f; exec 4<f; exec 3<>f; printf AB >&3; ln -L /dev/fd/4 g; printf C >&3; exec 3>&-`,
		"again":            open + `printf C >&3; exec 3>&-; exec 3<>g; printf ab >&3; ln g h; printf c >&3; exec 3>&-; printf end > f`,
	}
	names := slices.Sorted(maps.Keys(scripts))
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "mkdir '%s'; (cd '%[1]s'; echo '%[1]s:'; %[2]s; echo; stat -c %%i * | sort -u | wc -l; tail -n +1 *; echo)\n", name, scripts[name])
	}
	script := "rm -rf w; mkdir w; cd w\n" + all.String()
	plain := exec.Command("bash", "-c", script)
	plain.Dir = t.TempDir()
	want := finish(t, plain)
	mustEndWith(t, want, 0)
	forEachMount(t, func(t *testing.T, m *Mount) {
		got := m.Run(t, "bash", "-c", script)
		if got.Stdout != want.Stdout || got.Stderr != want.Stderr || got.Code != 0 {
			t.Errorf("%+v, beside %+v on a plain directory", got, want)
		}
	})
}

// Nobody else writes the file meanwhile, by whichever of its names: another program waits for
// the close, and its version comes after that of the first. Who reads does not wait, and sees
// what was there when the file was linked.
func TestLinkedFileIsItsWritersUntilTheClose(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range []struct{ begin, linked, written string }{
			{"printf 0123456789 > f; exec 3<>f", "AB23456789", "ABQ3456789"},
			{"exec 3>f", "AB", "ABQ"},
		} {
			for _, by := range []string{"f", "g"} {
				m.Bash(t, "rm -f f g")
				writer := m.LaunchBash(t, c.begin+"; printf AB >&3; ln f g; echo linked; read; printf Q >&3; cat f; echo; exec 3>&-; echo closed; read")
				writer.AwaitLine("linked")
				other := m.LaunchBash(t, "printf 'stranger was here' > "+by+"; echo rc $?")
				m.AwaitWaiters(t, by, 1)
				if got := m.Bash(t, "cat f g").Stdout; got != c.linked+c.linked {
					t.Errorf("%s, by %s: a reader sees %q", c.begin, by, got)
				}
				writer.Send("write")
				writer.AwaitLine(c.written)
				writer.AwaitLine("closed")
				if out := other.OK(); out != "rc 0\n" {
					t.Errorf("%s, by %s: the other says %q", c.begin, by, out)
				}
				if got := m.Bash(t, "cat f g").Stdout; got != "stranger was herestranger was here" {
					t.Errorf("%s, by %s: the file holds %q", c.begin, by, got)
				}
				writer.Send("end")
				writer.OK()
			}
		}
	})
}

// What the descriptor's program gives its file for a time is taken back when it says so, although
// the file was linked, or another descriptor closed, in between.
func TestTakenBackAfterALink(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import os, stat
os.umask(0)
def is_(n): s = os.stat(n); return s.st_uid, stat.S_IMODE(s.st_mode)
ways = {"mode": lambda t, on: os.chmod(t, 0o666 if on else 0o600)}
if os.getuid() == 0: ways["owner"] = lambda t, on: os.chown(t, 1000 if on else 0, -1)
for way, change in ways.items():
    for exists in False, True:
        for by_name in False, True:
            for wrote in False, True:
                n = "%s %d %d %d" % (way, exists, by_name, wrote)
                if exists:
                    with open(n, "w") as f: f.write("old")
                    os.chmod(n, 0o600)
                want = (os.getuid(), 0o600)
                fd = os.open(n, os.O_CREAT|os.O_RDWR, 0o600)
                target = n if by_name else fd
                if wrote: os.write(fd, b"before")
                change(target, True)
                os.link(n, n + " too")
                os.write(fd, b"after")
                change(target, False)
                os.close(fd)
                assert is_(n) == want == is_(n + " too"), (n, is_(n), want)
    n = way + " of two names"
    with open(n, "w") as f: f.write("old")
    os.chmod(n, 0o600)
    os.link(n, n + " too")
    fd = os.open(n, os.O_RDWR)
    change(fd, True)
    os.close(os.dup(fd))
    os.write(fd, b"new")
    change(fd, False)
    os.close(fd)
    assert is_(n) == (os.getuid(), 0o600), (n, is_(n))
`)
	})
}
