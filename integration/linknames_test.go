package integration

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// A file of which one of two names is taken away is meant by the other one from that
// moment on, whichever the kernel or we have seen last: nothing is written into what
// has the lost name next.
func TestLinkOutlivesItsOtherName(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   map[string]string
	}{
		"replaced, then saved": {
			`echo old >c; echo X >x; ln c b; mv x b; echo new >c`,
			map[string]string{"c": "new\n", "b": "X\n"},
		},
		"replaced, then appended to": {
			`echo old >c; echo X >x; ln c b; mv x b; echo more >>c`,
			map[string]string{"c": "old\nmore\n", "b": "X\n"},
		},
		"replaced, then truncated": {
			`echo old >c; echo X >x; ln c b; mv x b; truncate -s 1 c`,
			map[string]string{"c": "o", "b": "X\n"},
		},
		"replaced, then updated": {
			`echo old >c; echo X >x; ln c b; mv x b; printf new 1<>c`,
			map[string]string{"c": "new\n", "b": "X\n"},
		},
		"replaced, then replaced itself": {
			`echo old >c; echo X >x; echo Y >y; ln c b; mv x b; mv y c`,
			map[string]string{"c": "Y\n", "b": "X\n"},
		},
		"removed and made anew, then saved": {
			`echo old >c; ln c b; rm b; echo 1 >b; echo 2 >c`,
			map[string]string{"c": "2\n", "b": "1\n"},
		},
		"removed and made anew, then appended to": {
			`echo old >c; ln c b; rm b; echo 1 >b; echo 2 >>c`,
			map[string]string{"c": "old\n2\n", "b": "1\n"},
		},
		"removed, then saved while it is open": {
			`echo old >c; ln c b; exec 3<c; rm b; echo 2 >c; exec 3<&-`,
			map[string]string{"c": "2\n"},
		},
		"removed, then appended to while it is open": {
			`echo old >c; ln c b; exec 3<c; rm b; echo 2 >>c; exec 3<&-`,
			map[string]string{"c": "old\n2\n"},
		},
		"the first of three": {
			`echo old >c; ln c b; ln c a; rm a; echo 1 >a; mv a b; echo 2 >c`,
			map[string]string{"c": "2\n", "b": "1\n"},
		},
		"the elder name": {
			`echo old >c; echo X >x; ln c b; cat b >/dev/null; mv x c; echo new >b`,
			map[string]string{"c": "X\n", "b": "new\n"},
		},
		"its mode": {
			`echo old >c; echo X >x; chmod 644 x; ln c b; mv x b; chmod 600 c; stat -c %a c b >modes`,
			map[string]string{"modes": "600\n644\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rootAndUser(t, func(t *testing.T, m *Mount) {
				unwaited(t, m, "bash", "-ec", c.script)
				for name, want := range c.want {
					if got := m.ReadFile(name); got != want {
						t.Errorf("%s holds %q, want %q", name, got, want)
					}
				}
			}, shortWait)
		})
	}
}

// Two directories change places around the mount, the upper and the lower one.
func TestDirectoriesTurnedInsideOut(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("a")
		m.Mkdir("a/b")
		const script = `cd a/b; mv "$1/a/b" "$1/b"; mv "$1/a" "$1/b/a"; ls a 2>/dev/null || true; echo below >f`
		unwaited(t, m, "bash", "-ec", script, "bash", m.Data)
		if got := m.ReadFile("b/f"); got != "below\n" {
			t.Errorf("b/f holds %q", got)
		}
	})
}

// Whoever holds a flock holds it while the file gets a second name, and when it has
// one again.
func TestFlockStaysWhenTheFileIsLinked(t *testing.T) {
	link := func(m *Mount, c *Client) { c.OK(c.path2("link", "f", "g")) }
	unlink := func(m *Mount, c *Client) { c.OK(wire.Request{Op: "unlink", Path: m.Path("g")}) }
	replace := func(m *Mount, c *Client) {
		m.WriteFile("x", "X")
		c.OK(c.path2("rename", "x", "g"))
	}
	for name, change := range map[string]struct{ before, meanwhile func(*Mount, *Client) }{
		"linked":               {func(*Mount, *Client) {}, link},
		"its other name gone":  {link, unlink},
		"its other name taken": {link, replace},
		"linked, and alone again": {func(*Mount, *Client) {}, func(m *Mount, c *Client) {
			link(m, c)
			unlink(m, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("f", "content")
				a, one := locker(t, m, "f")
				change.before(m, a)
				a.OK(flockReq(one, unix.LOCK_EX))
				change.meanwhile(m, a)
				b, other := locker(t, m, "f")
				mustExclude(t, a, one, b, other)
			})
		})
	}
}

// An edit through a descriptor that names the file alone (/proc/self/fd/N, of one opened with
// O_PATH) happens at the node that the file's other names have, too, and is committed in
// place. What is done by another name afterwards is done to the file.
func TestLinkEditedThroughADescriptor(t *testing.T) {
	for _, after := range []struct{ name, python, want string }{
		{"read", `print(open("b").read())`, "edited\n"},
		{"append", `open("b", "a").write("more\n"); print(open("a").read())`, "edited\nmore\n"},
		{"truncate", `os.truncate("b", 2); print(open("a").read())`, "ed"},
		{"save", `open("a", "w").write("saved\n"); print(open("b").read())`, "saved\n"},
		{"touch", `os.utime("b", (1, 1)); print(os.stat("a").st_mtime)`, "1.0"},
		{"chmod", `os.chmod("b", 0o600); print(oct(os.stat("a").st_mode))`, "0o100600"},
		{"xattr", `os.setxattr("b", "user.x", b"1"); print(os.getxattr("a", "user.x"))`, "b'1'"},
		{"stat", `print(os.stat("b").st_nlink, os.stat("a").st_nlink, os.stat(descriptor).st_nlink)`, "2 2 2"},
		{"by the descriptor", `os.truncate("/proc/self/fd/%d" % descriptor, 2); print(open("b").read())`, "ed"},
	} {
		t.Run(after.name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				got := m.Python(t, `
import os
open("a", "w").write("old\n")
os.link("a", "b")
open("a").read(); open("b").read() # both names lead the kernel to one node
descriptor = os.open("a", os.O_PATH)
with open("/proc/self/fd/%d" % descriptor, "r+") as f:
    f.write("edited\n")
`+after.python)
				if got != after.want+"\n" {
					t.Errorf("%q, not %q", got, after.want)
				}
			})
		})
	}
}

// One process alone, with files of several names: nothing that it has done itself under one
// name is another's change under the other.
func TestOwnChangesByOtherNames(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import os
def save(name, mode="w"):
    with open(name, mode) as f: f.write(name + "\n")
save("c"); save("b"); save("c", "r+")
os.unlink("c"); os.link("b", "c")
os.rename("c", "b") # does nothing, for both are one file
assert os.stat("c").st_nlink == 2
save("c")
os.truncate("b", 0)
`)
		m.Python(t, `
import os
def save(name, mode="w"):
    with open(name, mode) as f: f.write(name + "\n")
save("g"); save("g", "r+")
save("h"); os.link("h", "i")
os.rename("g", "h"); os.link("i", "g") # g is another file now
save("i"); save("g", "a")
os.unlink("i")
save("h", "r+"); save("g", "a")
os.unlink("g")
save("g", "a")
assert open("g").read() == "g\n"
`)
		for _, ev := range m.Events() {
			if ev.Event == "conflict" || ev.Event == "put_back" || ev.Event == "bypass" {
				t.Errorf("%+v", ev)
			}
		}
	})
}

// Whoever writes a file with several names, and takes the one away by which it was opened or
// changes it by another, writes the file all the same: what is under the names that are left
// is what is there on a plain directory, and no close is refused.
func TestNamesOfAFileThatIsWritten(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	scripts := map[string]string{
		"removed":             `{ echo NEW; rm bak; } > a`,
		"removed by its own":  `{ echo NEW; rm a; } > a`,
		"replaced":            `echo other > t; { echo NEW; mv t bak; } > a`,
		"replaced by its own": `echo other > t; { echo NEW; mv t a; } > a`,
		"renamed":             `{ echo NEW; mv a b; } > a`,
		"all but one":         `ln a c; { echo NEW; rm a; echo MORE; rm c; } > a`,
		"all":                 `{ echo NEW; rm a bak; echo MORE; } > a`,
		"elsewhere":           `mkdir d; mv bak d/bak; { echo NEW; rm a; } > a`,
		"mode":                `{ echo NEW; chmod 600 bak; } > a; stat -c %a a bak`,
		"times":               `{ echo NEW; touch -d 2020-01-01 bak; } > a`,
		"one more":            `{ echo NEW; ln a c; } > a`,
	}
	names := slices.Sorted(maps.Keys(scripts))
	// The kernel remembers a name for a second, and we the last one that it has asked for.
	for when, wait := range map[string]string{"known": "", "unseen": "sleep 1.2\n"} {
		var before, after string
		for _, name := range names {
			before += fmt.Sprintf("mkdir '%s'; echo old > '%[1]s/a'; ln '%[1]s/a' '%[1]s/bak'\n", name)
			after += fmt.Sprintf("echo '%s:'; (cd '%[1]s'; %[2]s; find . -type f | sort | xargs tail -n +1)\n", name, scripts[name])
		}
		script := "set -e; rm -rf w; mkdir w; cd w\n" + before + wait + after
		plain := exec.Command("bash", "-c", script)
		plain.Dir = t.TempDir()
		want := finish(t, plain)
		mustEndWith(t, want, 0)
		forEachMount(t, func(t *testing.T, m *Mount) {
			got := m.Run(t, "bash", "-c", script)
			if got.Stdout != want.Stdout || got.Stderr != "" || got.Code != 0 {
				t.Errorf("%s: %+v, beside %+v on a plain directory", when, got, want)
			}
		})
	}
}

// What a program writes to a file after it has given it a further name is its own change: it
// may write the file again, by any of the names.
func TestWrittenOnAfterALink(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import os
def save(name, how, what):
    fd = os.open(name, how | os.O_WRONLY); os.write(fd, what); os.close(fd)
for i, (name, made) in enumerate([('old', 0), ('new', os.O_CREAT)]):
    if not made: save(name, os.O_CREAT, b'one'); open(name).read()
    fd = os.open(name, os.O_RDWR | made); os.write(fd, b'zz'); os.link(name, name + '2'); os.write(fd, b'yy'); os.close(fd)
    save(name, 0, b'b'); save(name + '2', 0, b'c')
    print(open(name).read(), open(name + '2').read())
    fd = os.open(name, os.O_RDWR); os.write(fd, b'x'); os.link(name, name + '3'); os.write(fd, b'x'); os.close(fd)
    os.unlink(name + '2'); os.unlink(name + '3')
    save(name, os.O_TRUNC, b'end'); print(open(name).read())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}

// A lock on a file with several names keeps others out by whichever name is left.
func TestLocksWhenANameIsGone(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import fcntl, os, sys
def taken(name): # by somebody who opens it now
    pid = os.fork()
    if pid == 0:
        try: fcntl.flock(os.open(name, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
for end in '', '.lock': # the second is live
    for gone, left in ('a', 'b'), ('b', 'a'):
        for looked in 'a', 'b':
            for how in 'unlink', 'rename':
                a, b = 'a' + end, 'b' + end
                open(a, 'w').close(); os.link(a, b)
                fd = os.open(a, os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); os.stat(looked + end)
                said = [taken(a), taken(b)]
                if how == 'unlink': os.unlink(gone + end)
                else: open('t', 'w').close(); os.rename('t', gone + end)
                said.append(taken(left + end))
                os.link(left + end, 'c' + end); said.append(taken('c' + end)); os.unlink(left + end); said.append(taken('c' + end))
                fcntl.flock(fd, fcntl.LOCK_UN); said.append(taken('c' + end))
                os.close(fd); os.unlink('c' + end)
                if how == 'rename': os.unlink(gone + end)
                print(end, gone, looked, how, said)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}

// A version that a save has replaced has lost its last name, and gets no other one, also while
// the daemon could still undo the save (durability = "lazy"). Whoever links its path links what
// is there now.
func TestLinkOfWhatWasReplaced(t *testing.T) {
	const script = `
import errno, os
here = os.open(".", os.O_PATH)
old = os.open("a", os.O_RDONLY)
open("a", "w").write("two")
try:
    os.link("/proc/self/fd/%d" % old, "b", src_dir_fd=here, follow_symlinks=True)
    print(open("b").read())
except OSError as e:
    print(errno.errorcode[e.errno])
os.link("a", "c")
print(open("c").read(), os.stat("a").st_nlink)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		if got := m.Python(t, script); got != "ENOENT\ntwo 2\n" {
			t.Errorf("the program prints %q", got)
		}
	}, withPolicy("[defaults]\ndurability = \"lazy\"\nhistory = 0\n"),
		withSeed(func(data string) error { return os.WriteFile(data+"/a", []byte("one"), 0o644) }))
}
