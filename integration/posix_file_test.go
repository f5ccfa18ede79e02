package integration

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fileChecks covers how files of every kind come to be, and what is done with
// the bytes of a regular one.
var fileChecks = []posixCheck{
	{"OpenFlags", checkOpenFlags},
	{"OpenOwnView", checkOpenOwnView},
	{"Tmpfile", checkTmpfile},
	{"Mknod", checkMknod},
	{"Symlinks", checkSymlinks},
	{"HardLinks", checkHardLinks},
	{"TruncateByPath", checkTruncateByPath},
	{"Fallocate", checkFallocate},
	{"FallocateErrors", checkFallocateErrors},
	{"CopyFileRange", checkCopyFileRange},
	{"SeekDataHole", checkSeekDataHole},
	{"LargeOffsets", checkLargeOffsets},
	{"Append", checkAppend},
	{"VectorIO", checkVectorIO},
	{"MmapShared", checkMmapShared},
	{"MmapPrivate", checkMmapPrivate},
	{"Fsync", checkFsync},
	{"Statfs", checkStatfs},
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

// checkHardLinks: all names of a file stay one file, whichever is written.
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
	p.read("a")
	p.read("d/b")
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

func checkTruncateByPath(p *probe) {
	p.write("f", "0123456789")
	p.must(os.Mkdir(p.at("d"), 0o755))
	for _, size := range []int64{4, 4, 12, 0, 1 << 20} {
		p.try(fmt.Sprintf("truncate to %d", size), unix.Truncate(p.at("f"), size))
		p.stat("f")
		p.read("f")
	}
	p.try("a directory", unix.Truncate(p.at("d"), 0))
	p.try("a missing file", unix.Truncate(p.at("no"), 0))
	p.try("negative", unix.Truncate(p.at("f"), -1))
	p.must(unix.Chmod(p.at("f"), 0o444))
	p.try("root on a read-only file", unix.Truncate(p.at("f"), 3))
	r := p.open("f", unix.O_RDONLY, 0)
	p.try("a read-only descriptor", unix.Ftruncate(r, 0))
	p.close("read-only", r)
}

// pattern is n bytes without zeros and without a period near a block size.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i%251) + 1
	}
	return b
}

func checkFallocate(p *probe) {
	const block = 64 << 10
	modes := []struct {
		name string
		mode uint32
	}{
		{"allocate", 0}, {"keep size", unix.FALLOC_FL_KEEP_SIZE},
		{"punch hole", unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE},
		{"zero range", unix.FALLOC_FL_ZERO_RANGE}, {"zero range, keep size", unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE},
	}
	for _, m := range modes {
		for _, r := range [][2]int64{{block, block}, {3 * block, 2 * block}, {100, 1000}, {8 * block, block}} {
			p.must(os.WriteFile(p.at("f"), pattern(4*block), 0o644))
			fd := p.open("f", unix.O_RDWR, 0)
			err := unix.Fallocate(fd, m.mode, r[0], r[1])
			p.try(fmt.Sprintf("%s %d+%d", m.name, r[0], r[1]), err)
			p.fstat("f", fd)
			p.close("f", fd)
			p.read("f")
			p.note("extents %s", extents(p, "f"))
		}
	}
}

// extents describes which parts of a file hold data.
func extents(p *probe, name string) string {
	fd := p.open(name, unix.O_RDONLY, 0)
	defer unix.Close(fd)
	var out []string
	for at := int64(0); ; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err != nil {
			return fmt.Sprintf("%v then %s", out, errnoName(err))
		}
		hole, err := unix.Seek(fd, data, unix.SEEK_HOLE)
		p.must(err)
		out = append(out, fmt.Sprintf("%d-%d", data, hole))
		at = hole
	}
}

// checkFallocateErrors. COLLAPSE_RANGE and INSERT_RANGE are left out: the
// kernel's FUSE client refuses them without asking (fuse_file_fallocate).
func checkFallocateErrors(p *probe) {
	p.write("f", "content")
	fd := p.open("f", unix.O_RDWR, 0)
	p.try("negative offset", unix.Fallocate(fd, 0, -1, 10))
	p.try("no length", unix.Fallocate(fd, 0, 0, 0))
	p.try("punch without keep size", unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE, 0, 1))
	p.close("f", fd)
	fd = p.open("f", unix.O_RDONLY, 0)
	p.try("read-only descriptor", unix.Fallocate(fd, 0, 0, 10))
	p.close("read-only", fd)
	p.read("f")
}

func checkCopyFileRange(p *probe) {
	const size = 300 << 10
	p.must(os.WriteFile(p.at("src"), pattern(size), 0o644))
	cfr := func(from int, inOff int64, to int, outOff int64, n int) {
		in, out := inOff, outOff
		total := 0
		for total < n {
			c, err := unix.CopyFileRange(from, &in, to, &out, n-total, 0)
			if err != nil || c == 0 {
				p.note("copy_file_range %d->%d: %d (%s)", inOff, outOff, total, errnoName(err))
				return
			}
			total += c
		}
		p.note("copy_file_range %d->%d: %d, offsets %d %d", inOff, outOff, total, in, out)
	}
	src := p.open("src", unix.O_RDONLY, 0)
	dst := p.open("dst", unix.O_RDWR|unix.O_CREAT, 0o644)
	cfr(src, 0, dst, 0, size)
	cfr(src, 1000, dst, size+5000, 70_000)
	cfr(src, size-10, dst, 0, 100)
	cfr(dst, 0, dst, 400<<10, 4096)
	cfr(src, 0, src, 0, 10)
	p.fstat("dst", dst)
	p.close("dst", dst)
	p.close("src", src)
	p.read("dst")
	dst = p.open("dst", unix.O_WRONLY|unix.O_APPEND, 0)
	src = p.open("src", unix.O_RDONLY, 0)
	cfr(src, 0, dst, 0, 10)
	p.close("dst", dst)
	p.close("src", src)
}

func checkSeekDataHole(p *probe) {
	const block = 64 << 10
	fd := p.open("f", unix.O_RDWR|unix.O_CREAT, 0o644)
	for _, at := range []int64{2, 5, 9} {
		_, err := unix.Pwrite(fd, pattern(block), at*block)
		p.must(err)
	}
	p.must(unix.Ftruncate(fd, 12*block))
	probeSeeks := func(what string) {
		for _, at := range []int64{0, block, 2 * block, 2*block + 5, 11 * block, 12 * block, 99 * block, -1} {
			for whence, name := range map[int]string{unix.SEEK_DATA: "data"} {
				off, err := unix.Seek(fd, at, whence)
				p.note("%s %s from %d: %d (%s)", what, name, at, off, errnoName(err))
			}
			off, err := unix.Seek(fd, at, unix.SEEK_HOLE)
			p.note("%s hole from %d: %d (%s)", what, at, off, errnoName(err))
		}
	}
	p.must(unix.Fsync(fd)) // delayed allocation shows no extents on some filesystems
	probeSeeks("writing")
	p.close("f", fd)
	fd = p.open("f", unix.O_RDONLY, 0)
	probeSeeks("reading")
	p.close("f", fd)
	// A sparse file stays sparse when it is updated.
	fd = p.open("f", unix.O_RDWR, 0)
	_, err := unix.Pwrite(fd, []byte("x"), 0)
	p.must(err)
	p.must(unix.Fsync(fd))
	p.close("f", fd)
	p.note("extents after an update %s", extents(p, "f"))
	p.read("f")
}

func checkLargeOffsets(p *probe) {
	fd := p.open("f", unix.O_RDWR|unix.O_CREAT, 0o644)
	const far = 5 << 30
	n, err := unix.Pwrite(fd, []byte("far away"), far)
	p.note("write: %d (%s)", n, errnoName(err))
	p.fstat("far", fd)
	_, err = unix.Pwrite(fd, []byte("x"), 1<<62)
	p.try("beyond what the filesystem can", err)
	_, err = unix.Pwrite(fd, []byte("x"), -1)
	p.try("negative", err)
	buf := make([]byte, 16)
	n, err = unix.Pread(fd, buf, far-4)
	p.note("read: %q (%s)", buf[:n], errnoName(err))
	n, err = unix.Pread(fd, buf, far+100)
	p.note("read behind the end: %d (%s)", n, errnoName(err))
	p.close("f", fd)
	p.stat("f")
	p.must(unix.Unlink(p.at("f")))
}

func checkAppend(p *probe) {
	p.write("f", "start|")
	a := p.open("f", unix.O_WRONLY|unix.O_APPEND, 0)
	b := p.open("f", unix.O_RDWR|unix.O_APPEND, 0)
	for i, fd := range []int{a, b, a, b} {
		_, err := unix.Pwrite(fd, fmt.Appendf(nil, "record %d\n", i), 0)
		p.try("append", err)
	}
	p.try("truncate", unix.Ftruncate(b, 6))
	_, err := unix.Write(a, []byte("after\n"))
	p.try("append", err)
	p.close("a", a)
	p.close("b", b)
	p.read("f")
	c := p.open("new", unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, 0o644)
	_, err = unix.Write(c, []byte("no newline at the end"))
	p.try("append to a new file", err)
	p.close("c", c)
	p.read("new")
}

func checkVectorIO(p *probe) {
	fd := p.open("f", unix.O_RDWR|unix.O_CREAT, 0o644)
	n, err := unix.Pwritev(fd, [][]byte{pattern(5000), {}, []byte("middle"), pattern(7)}, 10)
	p.note("pwritev: %d (%s)", n, errnoName(err))
	a, b := make([]byte, 8), make([]byte, 6000)
	n, err = unix.Preadv(fd, [][]byte{a, b}, 5005)
	p.note("preadv: %d %q %q (%s)", n, a, b[:max(0, n-8)], errnoName(err))
	off, err := unix.Seek(fd, -3, unix.SEEK_END)
	p.note("seek: %d (%s)", off, errnoName(err))
	n, err = unix.Write(fd, bytes.Repeat([]byte("z"), 5))
	p.note("write: %d (%s)", n, errnoName(err))
	p.close("f", fd)
	p.read("f")
}

func checkMmapShared(p *probe) {
	p.must(os.WriteFile(p.at("f"), pattern(3*4096), 0o644))
	fd := p.open("f", unix.O_RDWR, 0)
	m, err := unix.Mmap(fd, 0, 3*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	p.must(err)
	p.note("maps what was there: %v", bytes.Equal(m, pattern(3*4096)))
	copy(m[4000:], "stored through the mapping")
	buf := make([]byte, 26)
	n, err := unix.Pread(fd, buf, 4000)
	p.note("read sees the store: %q (%s)", buf[:n], errnoName(err))
	_, err = unix.Pwrite(fd, []byte("written"), 8000)
	p.must(err)
	p.note("mapping sees the write: %q", m[8000:8007])
	p.try("msync", unix.Msync(m, unix.MS_SYNC))
	copy(m[9000:], "after the msync")
	p.must(unix.Munmap(m))
	p.close("f", fd)
	p.read("f")
	r := p.open("f", unix.O_RDONLY, 0)
	_, err = unix.Mmap(r, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	p.try("writable mapping of a read-only descriptor", err)
	p.close("r", r)
}

func checkMmapPrivate(p *probe) {
	p.write("f", "private")
	r := p.open("f", unix.O_RDONLY, 0)
	m, err := unix.Mmap(r, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	p.must(err)
	p.close("r", r)
	copy(m, "PRIVATE")
	p.note("mapped %q", m[:8])
	p.read("f")
	p.must(unix.Munmap(m))
}

func checkFsync(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	d := p.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	fd := p.open("d/f", unix.O_RDWR|unix.O_CREAT, 0o644)
	_, err := unix.Write(fd, []byte("durable"))
	p.must(err)
	p.try("fsync", unix.Fsync(fd))
	p.try("fdatasync", unix.Fdatasync(fd))
	p.try("sync_file_range", unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE))
	p.try("fsync of the directory", unix.Fsync(d))
	p.try("fdatasync of the directory", unix.Fdatasync(d))
	p.try("syncfs", unix.Syncfs(fd))
	p.close("f", fd)
	p.try("fsync after the close", unix.Fsync(d))
	p.close("d", d)
	r := p.open("d/f", unix.O_RDONLY, 0)
	p.try("fsync of a read-only descriptor", unix.Fsync(r))
	p.close("r", r)
	p.read("d/f")
}

func checkStatfs(p *probe) {
	p.write("f", "x")
	var st unix.Statfs_t
	for _, name := range []string{".", "f"} {
		p.must(unix.Statfs(p.at(name), &st))
		p.note("%s: block size %d/%d, %d blocks, %d inodes, names to %d", name, st.Bsize, st.Frsize, st.Blocks, st.Files, st.Namelen)
		p.note("%s: plausible free space: %v", name, st.Bfree > 0 && st.Bavail <= st.Bfree && st.Bfree <= st.Blocks)
	}
	fd := p.open("f", unix.O_RDONLY, 0)
	p.try("fstatfs", unix.Fstatfs(fd, &st))
	p.close("f", fd)
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
