package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fileChecks covers how files of every kind come to be and are opened.
var fileChecks = []posixCheck{
	{"OpenFlags", checkOpenFlags},
	{"OpenOwnView", checkOpenOwnView},
	{"Tmpfile", checkTmpfile},
	{"Mknod", checkMknod},
	{"Symlinks", checkSymlinks},
	{"HardLinks", checkHardLinks},
	{"ExecScript", checkExec},
}

// checkOpenFlags opens every kind of file with every set of flags.
func checkOpenFlags(p *probe) {
	flags := []struct {
		name string
		bits int
	}{
		{"rdonly", unix.O_RDONLY}, {"wronly", unix.O_WRONLY}, {"rdwr", unix.O_RDWR},
		{"creat", unix.O_WRONLY | unix.O_CREAT}, {"excl", unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL},
		{"trunc", unix.O_WRONLY | unix.O_TRUNC}, {"rdonly creat", unix.O_RDONLY | unix.O_CREAT},
		{"append", unix.O_WRONLY | unix.O_APPEND}, {"directory", unix.O_RDONLY | unix.O_DIRECTORY},
		{"nofollow", unix.O_RDONLY | unix.O_NOFOLLOW}, {"wronly nofollow", unix.O_WRONLY | unix.O_NOFOLLOW},
		{"path", unix.O_PATH}, {"path nofollow", unix.O_PATH | unix.O_NOFOLLOW},
		{"directory creat", unix.O_RDONLY | unix.O_CREAT | unix.O_DIRECTORY},
		{"sync", unix.O_WRONLY | unix.O_SYNC}, {"noatime", unix.O_RDONLY | unix.O_NOATIME},
	}
	kinds := []string{"file", "dir", "tofile", "todir", "dangling", "loop", "missing", "file/below", "file/", "dir/", "missing/"}
	for _, f := range flags {
		for _, kind := range kinds {
			p.must(os.Mkdir(p.at("w"), 0o755))
			p.write("w/file", "content")
			p.must(os.Mkdir(p.at("w/dir"), 0o755))
			for link, target := range map[string]string{"tofile": "file", "todir": "dir", "dangling": "new", "loop": "loop"} {
				p.must(os.Symlink(target, p.at("w", link)))
			}
			fd, err := unix.Open(p.dir+"/w/"+kind, f.bits|unix.O_CLOEXEC, 0o640)
			if p.try(f.name+" of "+kind, err) {
				p.fstat("it", fd)
				p.close("it", fd)
			}
			p.list("w")
			p.must(os.RemoveAll(p.at("w")))
		}
	}
}

// checkOpenOwnView: a process sees its own unfinished writes by every path.
func checkOpenOwnView(p *probe) {
	p.write("f", "version one")
	p.must(os.Symlink("f", p.at("l")))
	for _, name := range []string{"f", "n"} {
		fd := p.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, 0o644)
		p.stat(name)
		p.list(".")
		_, err := unix.Write(fd, []byte("two"))
		p.must(err)
		p.stat(name)
		p.read(name)
		p.try("exclusive create", closing(unix.Open(p.at(name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)))
		second := p.open(name, unix.O_WRONLY|unix.O_APPEND, 0)
		_, err = unix.Write(second, []byte(" three"))
		p.must(err)
		p.close("second", second)
		p.read(name)
		p.try("truncate by path", unix.Truncate(p.at(name), 5))
		p.try("chmod by path", unix.Chmod(p.at(name), 0o611))
		p.fstat("first", fd)
		p.close("first", fd)
		p.read(name)
		p.stat(name)
	}
	p.read("l")
}

// closing turns the result of an open that should have failed into its error.
func closing(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// checkTmpfile gives a nameless file a name, and one that must never have one.
func checkTmpfile(p *probe) {
	fd := p.open(".", unix.O_TMPFILE|unix.O_RDWR, 0o640)
	_, err := unix.Write(fd, []byte("nameless"))
	p.must(err)
	p.fstat("nameless", fd)
	p.list(".")
	proc := fmt.Sprintf("/proc/self/fd/%d", fd)
	p.try("link through /proc", unix.Linkat(unix.AT_FDCWD, proc, unix.AT_FDCWD, p.at("named"), unix.AT_SYMLINK_FOLLOW))
	p.fstat("named", fd)
	p.read("named")
	p.try("link by descriptor", unix.Linkat(fd, "", unix.AT_FDCWD, p.at("second"), unix.AT_EMPTY_PATH))
	_, err = unix.Write(fd, []byte(", once"))
	p.try("write after the link", err)
	p.close("named", fd)
	p.read("named")
	p.read("second")

	fd = p.open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	_, err = unix.Write(fd, []byte("over"))
	p.must(err)
	p.try("link onto a name", unix.Linkat(fd, "", unix.AT_FDCWD, p.at("named"), unix.AT_EMPTY_PATH))
	p.close("unlinked", fd)

	fd = p.open(".", unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR, 0o600)
	p.try("link of an exclusive one", unix.Linkat(fd, "", unix.AT_FDCWD, p.at("never"), unix.AT_EMPTY_PATH))
	p.close("exclusive", fd)
	_, err = unix.Open(p.dir, unix.O_TMPFILE|unix.O_RDONLY, 0o600)
	p.try("read-only", err)
	p.list(".")
}

func checkMknod(p *probe) {
	for _, n := range []struct {
		name string
		mode uint32
		dev  int
	}{
		{"fifo", unix.S_IFIFO | 0o640, 0},
		{"socket", unix.S_IFSOCK | 0o600, 0},
		{"regular", unix.S_IFREG | 0o604, 0},
		{"zero", unix.S_IFREG, 0},
		{"null", unix.S_IFCHR | 0o666, int(unix.Mkdev(1, 3))},
		{"loop", unix.S_IFBLK | 0o600, int(unix.Mkdev(7, 99))},
		{"sticky", unix.S_IFREG | 0o7755, 0},
	} {
		p.try("mknod "+n.name, unix.Mknod(p.at(n.name), n.mode, n.dev))
		p.try("again", unix.Mknod(p.at(n.name), n.mode, n.dev))
		p.stat(n.name)
	}
	p.list(".")
	p.try("write /dev/null", os.WriteFile(p.at("null"), []byte("gone"), 0))

	// A fifo connects two descriptors of one process like anywhere else.
	r := p.open("fifo", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	w := p.open("fifo", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	_, err := unix.Write(w, []byte("through the pipe"))
	p.try("write fifo", err)
	buf := make([]byte, 32)
	n, err := unix.Read(r, buf)
	p.note("read fifo: %q (%s)", buf[:n], errnoName(err))
	p.close("fifo", r)
	p.close("fifo", w)
	_, err = unix.Open(p.at("fifo"), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	p.try("fifo without a reader", err)

	// So does a bound socket; its name is relative, for the length is limited.
	p.must(os.Chdir(p.dir))
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	p.must(err)
	p.try("bind", unix.Bind(listener, &unix.SockaddrUnix{Name: "bound"}))
	p.try("bind again", unix.Bind(listener, &unix.SockaddrUnix{Name: "bound"}))
	p.must(unix.Listen(listener, 1))
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	p.must(err)
	p.try("connect", unix.Connect(client, &unix.SockaddrUnix{Name: "bound"}))
	p.stat("bound")
	p.close("client", client)
	p.close("listener", listener)
}

func checkSymlinks(p *probe) {
	p.write("f", "through a link")
	targets := map[string]string{
		"relative": "f", "dangling": "no/such", "empty-looking": " ", "bytes": "\xff\xfe\n",
		"absolute": "/nonexistent/x", "up": "../../../..", "self": "self", "longest": strings.Repeat("x/", 2047) + "y",
	}
	names := make([]string, 0, len(targets))
	for name := range targets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p.try("symlink "+name, unix.Symlink(targets[name], p.at(name)))
		got, err := os.Readlink(p.at(name))
		p.note("%s leads to its target: %v (%s)", name, got == targets[name], errnoName(err))
		p.stat(name)
		p.try("open "+name, closing(unix.Open(p.at(name), unix.O_RDONLY, 0)))
	}
	p.try("too long", unix.Symlink(strings.Repeat("x", 4096), p.at("l")))
	p.try("empty", unix.Symlink("", p.at("l")))
	p.try("onto a name", unix.Symlink("f", p.at("self")))
	short := make([]byte, 3)
	n, err := unix.Readlink(p.at("absolute"), short)
	p.note("short readlink: %q (%s)", short[:n], errnoName(err))
	_, err = unix.Readlink(p.at("f"), short)
	p.try("readlink of a file", err)
	for i := range 41 {
		p.must(os.Symlink(fmt.Sprintf("c%d", i+1), p.at(fmt.Sprintf("c%d", i))))
	}
	p.write("c41", "end of the chain")
	p.try("41 links", closing(unix.Open(p.at("c0"), unix.O_RDONLY, 0)))
	p.try("40 links", closing(unix.Open(p.at("c1"), unix.O_RDONLY, 0)))
	p.write("relative", "rewritten through the link")
	p.read("f")
	p.try("chown the link", unix.Lchown(p.at("relative"), 7, 8))
	p.stat("relative", "f")
}

// checkHardLinks: all names of a file stay one file, whichever is written. While
// it is written, only the name it was opened by shows it to the writer.
func checkHardLinks(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.write("a", "first")
	p.try("link", unix.Link(p.at("a"), p.at("d/b")))
	p.try("onto a name", unix.Link(p.at("a"), p.at("d/b")))
	p.try("of a directory", unix.Link(p.at("d"), p.at("e")))
	p.try("of a missing file", unix.Link(p.at("no"), p.at("e")))
	p.try("into a missing directory", unix.Link(p.at("a"), p.at("no/e")))
	sameInode := func() {
		var a, b unix.Stat_t
		p.must(unix.Lstat(p.at("a"), &a))
		p.must(unix.Lstat(p.at("d/b"), &b))
		p.note("one inode: %v", a.Ino == b.Ino)
		p.stat("a", "d/b")
	}
	sameInode()
	p.write("d/b", "rewritten through the other name")
	sameInode()
	p.read("a")
	fd := p.open("a", unix.O_RDWR, 0)
	_, err := unix.Pwrite(fd, []byte("REWRITTEN"), 0)
	p.must(err)
	p.read("a") // by the other name the old content is seen until the close
	p.close("updated", fd)
	sameInode()
	p.read("d/b")
	p.must(unix.Unlink(p.at("a")))
	p.stat("d/b")

	// A link made while the file is being written counts as well.
	fd = p.open("d/b", unix.O_RDWR|unix.O_TRUNC, 0)
	_, err = unix.Write(fd, []byte("written before the link"))
	p.must(err)
	p.try("link of a written file", unix.Link(p.at("d/b"), p.at("a")))
	_, err = unix.Write(fd, []byte(", and after"))
	p.must(err)
	p.close("linked while written", fd)
	sameInode()
	p.read("a")
	fd = p.open("n", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	p.try("link of a new file", unix.Link(p.at("n"), p.at("n2")))
	_, err = unix.Write(fd, []byte("new"))
	p.must(err)
	p.close("new", fd)
	p.stat("n", "n2")
	p.read("n2")
	p.must(os.Symlink("a", p.at("l")))
	p.try("link of a symlink", unix.Link(p.at("l"), p.at("l2")))
	p.stat("l", "l2")
	p.try("link of what it leads to", unix.Linkat(unix.AT_FDCWD, p.at("l"), unix.AT_FDCWD, p.at("l3"), unix.AT_SYMLINK_FOLLOW))
	p.stat("l3")
}

// checkExec runs a script and a binary that lie in the directory.
func checkExec(p *probe) {
	p.write("script", "#!/bin/sh\necho ran as $0 with $1 >&2\nexit 7\n")
	p.must(os.Chmod(p.at("script"), 0o755))
	p.note("script: %s", runBriefly(p, p.at("script"), "x"))
	program, err := os.ReadFile("/bin/true")
	p.must(err)
	p.must(os.WriteFile(p.at("true"), program, 0o755))
	p.note("binary: %s", runBriefly(p, p.at("true")))
	p.must(os.Chmod(p.at("true"), 0o644))
	p.note("not executable: %s", runBriefly(p, p.at("true")))
}
