package integration

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dataChecks covers what is done with the bytes of a regular file.
var dataChecks = []posixCheck{
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
