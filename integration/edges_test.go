package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 13: the rules at the edges.

// needsRoot skips what only root can set up.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// capNetRaw is security.capability with cap_net_raw+ep (version 2).
var capNetRaw = []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// A dirty commit drops setuid, setgid and file capabilities as a plain write
// does; a session that wrote nothing drops nothing.
func TestRewritingDropsPrivilegesOfAFile(t *testing.T) {
	needsRoot(t)
	for _, opts := range [][]mountOption{{}, {noPassthrough()}} {
		m := mount(t, opts...)
		other := m.ClientAs(t, otherUID)
		writes := map[string]func(c *Client, fd int){
			"write":    func(c *Client, fd int) { c.Write(fd, "changed") },
			"truncate": func(c *Client, fd int) { c.OK(wire.Request{Op: "ftruncate", FD: fd, Len: 3}) },
			"mmap": func(c *Client, fd int) {
				id := int(c.OK(wire.Request{Op: "mmap", FD: fd, Len: 10, Flags: unix.PROT_READ | unix.PROT_WRITE}).N)
				c.OK(wire.Request{Op: "store", FD: id, Data: []byte("changed")})
				c.OK(wire.Request{Op: "munmap", FD: id})
			},
			"nothing": func(c *Client, fd int) { c.ReadAt(fd, 10, 0) },
		}
		for what, write := range writes {
			name := "suid-" + what
			m.WriteFile(name, "#!/bin/true\n# a program\n")
			m.control.OK(wire.Request{Op: "chmod", Path: m.Path(name), Mode: 0o6777})
			m.control.OK(wire.Request{Op: "setxattr", Path: m.Path(name), To: "security.capability", Data: capNetRaw})
			fd := other.Open(name, unix.O_RDWR)
			write(other, fd)
			other.MustClose(fd)
			st, _ := m.control.Stat(name)
			_, errCap := m.control.Do(wire.Request{Op: "getxattr", Path: m.Path(name), To: "security.capability"})
			// A mapped store drops nothing on a plain directory; a commit of it does.
			kept := what == "nothing" || what == "mmap" && *plain
			if suid := st.Mode&0o6000 == 0o6000; suid != kept {
				t.Errorf("%s: after %s by another user the mode is %o", m.Name, what, st.Mode)
			}
			if cap := errCap == nil; cap != kept {
				t.Errorf("%s: after %s by another user the capability is there: %v", m.Name, what, cap)
			}
			if st.UID != 0 {
				t.Errorf("%s: after %s by another user the owner is %d", m.Name, what, st.UID)
			}
		}
	}
}

// Root keeps the bits when it rewrites, as CAP_FSETID lets it on a plain
// directory, and its truncating open too.
func TestRootKeepsSetuid(t *testing.T) {
	needsRoot(t)
	m := mount(t)
	m.WriteFile("suid", "old")
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("suid"), Mode: 0o4755})
	m.WriteFile("suid", "new")
	if st, _ := m.control.Stat("suid"); st.Mode&0o4000 == 0 {
		t.Errorf("root's rewrite left mode %o", st.Mode)
	}
}

// The bytes of a session are for those who may read the file, and nobody else:
// neither in the data directory nor in the state directory.
func TestShadowsAreNotReadableByOthers(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("secret", "old secret\n")
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("secret"), Mode: 0o600})
	c := m.Client(t)
	fd := c.Open("secret", unix.O_WRONLY|unix.O_TRUNC)
	c.Write(fd, "new secret\n")
	find := `import os, sys
for top, dirs, files in os.walk(sys.argv[1]):
    for f in files:
        try:
            data = open(os.path.join(top, f), "rb").read()
        except OSError:
            continue
        if b"secret" in data:
            print(os.path.join(top, f))
`
	stranger := m.ClientAs(t, otherUID)
	out, _ := m.runAs(t, otherUID, bench.python, "-c", find, m.Data)
	if out != "" {
		t.Errorf("a stranger reads the session in %s", out)
	}
	if _, err := stranger.TryOpen("secret", unix.O_RDONLY); err != syscall.EACCES {
		t.Errorf("a stranger's open: %v, want EACCES", err)
	}
	c.Kill()
	eventually(t, "the rollback", func() bool { return m.Status().Held() == 0 })
	if out, _ := m.runAs(t, otherUID, bench.python, "-c", find, m.Data); out != "" {
		t.Errorf("a stranger reads the refused bytes in %s", out)
	}
}

// A caller whose process latchfs cannot see is nobody's heir: its files are
// safe like everybody's, and each of its handles is an owner of its own.
func TestCallersInAForeignPIDNamespace(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	for _, opts := range [][]mountOption{{}, {noPassthrough()}} {
		m := mount(t, append(opts, foreignPIDs())...)
		m.WriteFile("f", "old\n")
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("f holds %q", got)
		}
		c := m.Client(t)
		fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "new\n")
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("before the close f holds %q", got)
		}
		if _, err := c.TryOpen("f", unix.O_WRONLY|unix.O_NONBLOCK); err != syscall.EAGAIN {
			t.Errorf("a second handle: %v, want EAGAIN", err)
		}
		c.MustClose(fd)
		if got := m.ReadFile("f"); got != "new\n" {
			t.Errorf("after the close f holds %q", got)
		}
		must(t, c.Save("t", "renamed\n"))
		c.OK(c.path2("rename", "t", "f"))
		c.OK(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o600})
		c.OK(wire.Request{Op: "truncate", Path: m.Path("f"), Len: 4})
		if got := m.ReadFile("f"); got != "rena" {
			t.Errorf("after rename and truncate f holds %q", got)
		}
		c.OK(wire.Request{Op: "unlink", Path: m.Path("f")})
		if names := m.List(""); len(names) != 0 {
			t.Errorf("after unlink: %q", names)
		}
		killed := m.Client(t)
		killed.Open("g", unix.O_WRONLY|unix.O_CREAT)
		killed.Kill()
		eventually(t, "the dead caller's lock is gone", func() bool { return m.Status().Held() == 0 })
	}
}

// Several such callers rewrite one file, and nobody reads a torn version.
func TestForeignRewritesAreNeverTorn(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t, foreignPIDs())
	readWhileWriting(t, m, []string{"read", "mmap"}, func() {
		var procs []*Proc
		for w := range 4 {
			procs = append(procs, m.LaunchPython(t, rewriter, "doc.json", fmt.Sprint(w+1), "30"))
		}
		for _, p := range procs {
			p.OK()
		}
	})
}

// A caller in a pid namespace below latchfs's is visible, under another number.
func TestCallersInANestedPIDNamespace(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	requireTool(t, "unshare")
	m := mount(t)
	m.WriteFile("f", "old\n")
	c := m.ClientThrough(t, "unshare", "--pid", "--fork", "--kill-child")
	fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
	c.Write(fd, "new\n")
	second := c.Open("f", unix.O_WRONLY|unix.O_NONBLOCK) // joins its own session
	c.MustClose(second)
	if got := m.ReadFile("f"); got != "old\n" {
		t.Errorf("before the close f holds %q", got)
	}
	c.MustClose(fd)
	if got := m.ReadFile("f"); got != "new\n" {
		t.Errorf("after the close f holds %q", got)
	}
}

// A write-open through /proc/self/fd walks no name. Where nobody else has the
// file open it works like any other; where somebody keeps it open it is refused,
// for the other's view would change under it. O_NONBLOCK does not wait for that.
func TestWriteOpenThroughProcFD(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		for _, flags := range []int{unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC} {
			name := fmt.Sprintf("f%d", flags)
			m.WriteFile(name, "the old content\n")
			handle := c.Open(name, unix.O_PATH)
			through := fmt.Sprintf("/proc/self/fd/%d", handle)
			fd := c.Open(through, flags)
			c.Write(fd, "new")
			if got := m.ReadFile(name); got != "the old content\n" {
				t.Errorf("before the close others read %q", got)
			}
			c.MustClose(fd)
			want := "new old content\n"
			if flags&unix.O_TRUNC != 0 {
				want = "new"
			}
			if got := m.ReadFile(name); got != want {
				t.Errorf("after the close the file holds %q, want %q", got, want)
			}
			c.MustClose(handle)

			m.WriteFile(name, "the old content\n")
			reader := m.Client(t)
			view := reader.Open(name, unix.O_RDONLY)
			handle = c.Open(name, unix.O_PATH)
			through = fmt.Sprintf("/proc/self/fd/%d", handle)
			if _, err := c.TryOpen(through, flags); err != syscall.EBUSY {
				t.Errorf("beside a reader: %v, want EBUSY", err)
			}
			if _, err := c.TryOpen(through, flags|unix.O_NONBLOCK); err != syscall.EAGAIN {
				t.Errorf("beside a reader, without waiting: %v, want EAGAIN", err)
			}
			if got := reader.ReadAt(view, 100, 0); got != "the old content\n" {
				t.Errorf("the reader's view became %q", got)
			}
			if size := reader.Fstat(view).Size; size != 16 {
				t.Errorf("the reader's size became %d", size)
			}
			c.MustClose(handle)
		}
	}, lockTimeout(500*time.Millisecond))
}

// A directory that may be read and not searched shows its names.
func TestDirectoryThatMayNotBeSearched(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		o := m.Bash(t, `mkdir d; touch d/a d/b; chmod 444 d; python3 -c 'import os; print(sorted(os.listdir("d")))'; chmod 755 d`)
		if o.Code != 0 || o.Stdout != "['a', 'b']\n" {
			t.Errorf("%+v", o)
		}
	})
}

// What empties a file that is empty writes it: make goes by the time of such a stamp. Its
// version stays, and whoever has read it may write it.
func TestEmptyFileIsWritten(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	requireTool(t, "make")
	forEachMount(t, func(t *testing.T, m *Mount) {
		reader := m.Client(t)
		m.WriteFile("stamp", "")
		o := m.Bash(t, `
set -e
printf 'stamp: source\n\t@echo built\n\t@: > stamp\n' > Makefile
touch -d 2020-01-01 stamp; touch -d 2021-01-01 source
make; make
touch -d 2020-01-01 stamp; : > stamp; [ stamp -nt source ]
touch -d 2020-01-01 stamp; exec 3> stamp; echo x >&3; exec 3>&-; [ stamp -nt source ]; : > stamp
touch -d 2020-01-01 stamp; : >> stamp; exec 3<> stamp; exec 3>&-; [ source -nt stamp ]
: > stamp; latchfs=$(stat -c %Y stamp); [ $latchfs -gt 1609459200 ]; touch -d 2020-01-01 stamp; python3 -c '
import os
fd = os.open("stamp", os.O_WRONLY | os.O_TRUNC); print(os.fstat(fd).st_mtime > 1609459200)'
`)
		if want := "built\nmake: 'stamp' is up to date.\nTrue\n"; o.Code != 0 || o.Stdout != want || o.Stderr != "" {
			t.Errorf("%+v", o)
		}
		reader.ReadFile("stamp")
		m.mustBash(t, ": > stamp")
		if err := reader.Save("stamp", "mine"); err != nil {
			t.Errorf("who has read it saves: %v", err)
		}
	})
}

// A script that opens its own standard output or error, or a file that it reads, once more
// through /dev has what it has on a plain directory, at once: it waits for nobody, least of
// all for itself.
func TestOwnDescriptorOpenedAnew(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	scripts := map[string]string{
		"output":      `echo one > f; bash -c 'echo two > /dev/stdout' >> f`,
		"error":       `echo one > f; bash -c 'echo a >&2; echo b > /dev/stderr; echo c > /dev/stderr; echo d >&2' 2>> f`,
		"each time":   `echo one > f; for i in 1 2 3; do echo $i; bash -c "echo e$i > /dev/stderr"; done >> f 2>&1`,
		"input":       `echo one > f; bash -c 'echo two > /dev/stdin' < f`,
		"a part":      `echo one two > f; bash -c 'dd conv=notrunc of=/dev/fd/3 status=none <<< six; cat <&3' 3< f > /dev/null`,
		"python":      `echo one > f; python3 -c 'open("/dev/stdout", "w").write("two\n")' >> f`,
		"child":       `echo one > f; bash -c 'exec 3>/dev/stdout; echo two >&3; (sleep 0.1; echo three >&3) & exec 3>&-; wait' >> f`,
		"cut":         `echo one > f; truncate -s 2 /dev/stdin < f`,
		"twice":       `echo one > f; exec 3< f; echo two > /dev/fd/3; echo three > /dev/fd/3`,
		"after saves": `echo one > f; exec 3< f; echo two > f; echo three > /dev/fd/3`,
		"replaced":    `echo one > f; exec 3< f; echo two > t; mv t f; echo three > /dev/fd/3`,
		"size": `echo 0123456789 > f; python3 -c '
import os
r = os.open("f", os.O_RDONLY); w = os.open("/proc/self/fd/%d" % r, os.O_WRONLY | os.O_TRUNC)
os.write(w, b"hello "); print(os.lseek(w, 0, os.SEEK_END), os.fstat(w).st_size); os.write(w, b"world")
os.ftruncate(w, 9); print(os.lseek(w, 0, os.SEEK_END), os.fstat(w).st_size)'`,
		"at the name": `echo one > f; bash -c 'exec 3>/dev/stdout; echo two >&3; cat f >&2; echo three > f; exec 3>&-' >> f`,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range scripts {
			script := "set -e; rm -rf w; mkdir w; cd w; " + script + "; cat f; ls"
			m.AsOnPlain(t, name, "timeout", "20", "bash", "-c", script)
		}
	})
}

// Writing through a symbolic link, a directory descriptor, the working
// directory and `..` is the same as by the plain name.
func TestWriteOpensByOtherWalks(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		c := m.Client(t)
		c.OK(wire.Request{Op: "symlink", Path: m.Path("link"), To: "d/f"})
		dir := c.Open("d", unix.O_PATH|unix.O_DIRECTORY)
		c.OK(wire.Request{Op: "chdir", Path: m.Path("d")})
		walks := map[string]wire.Request{
			"symlink":      {Op: "open", Path: m.Path("link")},
			"openat":       {Op: "openat", FD: dir, Path: "f"},
			"relative":     {Op: "open", Path: "f"},
			"dotdot":       {Op: "open", Path: "../d/./f"},
			"symlink to d": {Op: "open", Path: "../d/../link"},
		}
		for how, req := range walks {
			m.WriteFile("d/f", "old\n")
			for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_TRUNC} {
				req.Flags = flags | unix.O_CLOEXEC
				before := m.ReadFile("d/f")
				fd := int(c.OK(req).N)
				text := fmt.Sprintf("%s %d\n", how, flags)
				c.Write(fd, text)
				if got := m.ReadFile("d/f"); got != before && !*plain {
					t.Errorf("%s: before the close others read %q", how, got)
				}
				c.MustClose(fd)
				if got := m.ReadFile("d/f"); !strings.HasPrefix(got, text) {
					t.Errorf("%s: after the close the file holds %q", how, got)
				}
			}
		}
		c.OK(wire.Request{Op: "chdir", Path: "/"})
	}, careless())
}

// A directory whose files were removed is empty, also while their program has one open that it
// has synced.
func TestEmptiedDirectoryOfAnOpenFile(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import os, subprocess
def end(how, flags, name="d/f"):
    os.mkdir("d")
    open("d/old", "w").write("old")
    fd = os.open(name, flags, 0o644)
    os.write(fd, b"x")
    os.fsync(fd)
    how()
    os.write(fd, b"y")
    os.fsync(fd)
    print(os.path.exists("d"), os.fstat(fd).st_nlink, os.pread(fd, 9, 0))
    os.close(fd)
def remove():
    for name in os.listdir("d"): os.unlink("d/" + name)
    os.rmdir("d")
def child(): subprocess.run(["rm", "-r", "d"], check=True)
def over():
    for name in os.listdir("d"): os.unlink("d/" + name)
    os.mkdir("e"); os.rename("e", "d"); os.rmdir("d")
for how in remove, child, over:
    end(how, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    end(how, os.O_RDWR | os.O_TRUNC, "d/old")
    end(how, os.O_RDWR, "d/old")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}
