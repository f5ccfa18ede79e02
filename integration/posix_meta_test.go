package integration

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// metaChecks covers times, modes and owners, on files at rest and on files that
// are being written.
var metaChecks = []posixCheck{
	{"Utimens", checkUtimens},
	{"UtimensWhileWriting", checkUtimensWhileWriting},
	{"UtimensRights", checkUtimensRights},
	{"OnlyUsersMoveAtime", checkOnlyUsersMoveAtime},
	{"WriteMovesTimes", checkWriteMovesTimes},
	{"NewFileStays", checkNewFileStays},
	{"DirectoryTimes", checkDirectoryTimes},
	{"Chmod", checkChmod},
	{"ChmodWhileWriting", checkChmodWhileWriting},
	{"Chown", checkChown},
	{"SetgidDirectory", checkSetgidDirectory},
	{"SetuidDropped", checkSetuidDropped},
	{"Umask", checkUmask},
}

func times(a, m unix.Timespec) []unix.Timespec { return []unix.Timespec{a, m} }

var (
	timeNow  = unix.Timespec{Nsec: unix.UTIME_NOW}
	timeOmit = unix.Timespec{Nsec: unix.UTIME_OMIT}
)

// noteTimes notes atime and mtime in full when they were set by hand.
func noteTimes(p *probe, name string) {
	var st unix.Stat_t
	p.must(unix.Lstat(p.at(name), &st))
	noteTimesOf(p, name, &st)
}

func noteTimesOf(p *probe, name string, st *unix.Stat_t) {
	show := func(ts unix.Timespec) string {
		var now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_REALTIME, &now)
		if d := now.Sec - ts.Sec; d >= 0 && d < 300 {
			return "recent"
		}
		return fmt.Sprintf("%d.%09d", ts.Sec, ts.Nsec)
	}
	p.note("%s: atime %s mtime %s", name, show(st.Atim), show(st.Mtim))
}

func checkUtimens(p *probe) {
	p.write("f", "x")
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.must(os.Symlink("f", p.at("l")))
	a, m := unix.Timespec{Sec: 1_000_000_001, Nsec: 123_456_789}, unix.Timespec{Sec: 1_100_000_000, Nsec: 987_654_321}
	for _, name := range []string{"f", "d", "l"} {
		set := func(what string, ts []unix.Timespec) {
			p.try(what+" "+name, unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), ts, unix.AT_SYMLINK_NOFOLLOW))
			noteTimes(p, name)
		}
		set("both", times(a, m))
		set("omit both", times(timeOmit, timeOmit))
		set("atime only", times(m, timeOmit))
		set("mtime only", times(timeOmit, a))
		set("now and omit", times(timeNow, timeOmit))
		set("omit and now", times(timeOmit, timeNow))
		set("before 1970", times(unix.Timespec{Sec: -77, Nsec: 5}, unix.Timespec{Sec: -1, Nsec: 999_999_999}))
		set("after 2038", times(unix.Timespec{Sec: 1 << 32}, unix.Timespec{Sec: 1<<33 - 1, Nsec: 1}))
		set("bad nanoseconds", times(unix.Timespec{Nsec: 1_000_000_000}, m))
	}
	p.try("through the link", unix.UtimesNanoAt(unix.AT_FDCWD, p.at("l"), times(a, a), 0))
	noteTimes(p, "f")
	p.try("missing", unix.UtimesNanoAt(unix.AT_FDCWD, p.at("no"), times(a, a), 0))
}

// checkUtimensWhileWriting: cp -p, tar and rsync set times on the descriptor
// they have written, before they close it.
func checkUtimensWhileWriting(p *probe) {
	want := unix.Timespec{Sec: 1_234_567_890, Nsec: 111_222_333}
	p.write("old", "old content")
	for _, name := range []string{"old", "new"} {
		fd := p.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o644)
		_, err := unix.Write(fd, []byte("written"))
		p.must(err)
		proc := fmt.Sprintf("/proc/self/fd/%d", fd)
		p.try("futimens "+name, unix.UtimesNanoAt(unix.AT_FDCWD, proc, times(want, want), 0))
		noteTimes(p, name)
		p.close(name, fd)
		noteTimes(p, name)
		fd = p.open(name, unix.O_WRONLY, 0)
		_, err = unix.Write(fd, []byte("WRITTEN"))
		p.must(err)
		p.try("utimensat by path", unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), times(timeOmit, want), 0))
		p.close(name, fd)
		noteTimes(p, name)
		p.try("after the close", unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), times(want, want), 0))
		fd = p.open(name, unix.O_RDWR, 0)
		p.close("untouched "+name, fd)
		noteTimes(p, name)
	}
}

// checkOnlyUsersMoveAtime takes a file away that may still be written, so that
// whoever keeps what it held has to copy it: the next reader's atime is not that.
func checkOnlyUsersMoveAtime(p *probe) {
	unread := times(unix.Timespec{Sec: 1_000_000_000}, unix.Timespec{Sec: 1_100_000_000})
	for _, name := range []string{"removed", "replaced"} {
		p.write(name, "content")
		reader := p.open(name, unix.O_RDONLY, 0)
		appender := p.open(name, unix.O_WRONLY|unix.O_APPEND, 0)
		p.must(unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), unread, 0))
		if name == "removed" {
			p.must(unix.Unlink(p.at(name)))
		} else {
			p.write("other", "another")
			p.must(unix.Rename(p.at("other"), p.at(name)))
		}
		var st unix.Stat_t
		p.must(unix.Fstat(reader, &st))
		noteTimesOf(p, name, &st)
		p.must(unix.Close(appender))
		p.must(unix.Close(reader))
	}
}

func checkUtimensRights(p *probe) {
	p.needsRoot()
	p.write("mine", "x")
	p.write("theirs", "x")
	p.must(os.Chmod(p.at("theirs"), 0o666))
	p.must(os.Chown(p.at("mine"), testUID, testUID))
	old := unix.Timespec{Sec: 1_000_000_000}
	p.as(testUID, testUID, nil, func() {
		for _, name := range []string{"mine", "theirs"} {
			p.try(name+": set", unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), times(old, old), 0))
			p.try(name+": now", unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), times(timeNow, timeNow), 0))
			p.try(name+": one now", unix.UtimesNanoAt(unix.AT_FDCWD, p.at(name), times(timeOmit, timeNow), 0))
		}
		p.must(unix.Chmod(p.at("mine"), 0o400))
		p.try("read-only mine: now", unix.UtimesNanoAt(unix.AT_FDCWD, p.at("mine"), times(timeNow, timeNow), 0))
	})
	p.must(os.Chmod(p.at("theirs"), 0o644))
	p.as(testUID, testUID, nil, func() {
		p.try("read-only theirs: now", unix.UtimesNanoAt(unix.AT_FDCWD, p.at("theirs"), times(timeNow, timeNow), 0))
	})
}

// testUID and testGroup belong to nobody on the system.
const (
	testUID   = 54321
	testGroup = 54399
)

// checkWriteMovesTimes: which operations move mtime and ctime, and which do not.
func checkWriteMovesTimes(p *probe) {
	p.write("f", "0123456789")
	stamp := func() (st unix.Stat_t) {
		p.must(unix.Stat(p.at("f"), &st))
		return st
	}
	step := func(what string, f func()) {
		before := stamp()
		clockTick()
		f()
		after := stamp()
		p.note("%s: mtime moved %v, ctime moved %v", what, before.Mtim != after.Mtim, before.Ctim != after.Ctim)
	}
	with := func(flags int, f func(fd int)) func() {
		return func() {
			fd := p.open("f", flags, 0)
			f(fd)
			p.close("f", fd)
		}
	}
	step("open and close", with(unix.O_RDWR, func(int) {}))
	step("write", with(unix.O_RDWR, func(fd int) { _, _ = unix.Write(fd, []byte("x")) }))
	step("write of the same byte", with(unix.O_RDWR, func(fd int) { _, _ = unix.Write(fd, []byte("x")) }))
	step("write of nothing", with(unix.O_RDWR, func(fd int) { _, _ = unix.Write(fd, nil) }))
	step("read", with(unix.O_RDWR, func(fd int) { _, _ = unix.Read(fd, make([]byte, 4)) }))
	step("ftruncate to less", with(unix.O_RDWR, func(fd int) { p.must(unix.Ftruncate(fd, 5)) }))
	step("ftruncate to the same", with(unix.O_RDWR, func(fd int) { p.must(unix.Ftruncate(fd, 5)) }))
	step("O_TRUNC", with(unix.O_RDWR|unix.O_TRUNC, func(int) {}))
	step("fsync", with(unix.O_RDWR, func(fd int) { p.must(unix.Fsync(fd)) }))
	step("allocate", with(unix.O_RDWR, func(fd int) { p.must(unix.Fallocate(fd, 0, 0, 100)) }))
	step("chmod", func() { p.must(unix.Chmod(p.at("f"), 0o600)) })
	step("link", func() { p.must(unix.Link(p.at("f"), p.at("g"))) })
	step("unlink of the link", func() { p.must(unix.Unlink(p.at("g"))) })
	step("setxattr", func() { p.must(unix.Setxattr(p.at("f"), "user.x", []byte("x"), 0)) })
}

// checkNewFileStays: what fstat says of a new file before its close is what stat says
// after it. git notes the former, and takes a difference for a change.
func checkNewFileStays(p *probe) {
	set := unix.Timespec{Sec: 1_234_567_890, Nsec: 111_222_333}
	for _, last := range []struct {
		what string
		do   func(fd int) error
	}{
		{"write", func(fd int) error { _, err := unix.Write(fd, []byte("more")); return err }},
		{"fchmod", func(fd int) error { return unix.Fchmod(fd, 0o755) }},
		{"fsync", unix.Fsync},
		{"ftruncate", func(fd int) error { return unix.Ftruncate(fd, 2) }},
		{"futimens", func(fd int) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), times(set, set), 0)
		}},
		{"fsetxattr", func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("x"), 0) }},
	} {
		name := "f-" + last.what
		fd := p.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
		_, err := unix.Write(fd, []byte("content"))
		p.must(err)
		clockTick()
		p.must(last.do(fd))
		clockTick()
		var before, after unix.Stat_t
		p.must(unix.Fstat(fd, &before))
		clockTick()
		p.close(name, fd)
		p.must(unix.Lstat(p.at(name), &after))
		p.note("after %s and close: all the same %v, ctime %v", last.what, before == after, before.Ctim == after.Ctim)
		clockTick()
		p.must(os.Rename(p.at(name), p.at(name+"-moved")))
		p.must(unix.Lstat(p.at(name+"-moved"), &after))
		p.note("after rename: ctime the same %v, mtime %v", before.Ctim == after.Ctim, before.Mtim == after.Mtim)
	}
}

// checkDirectoryTimes: a directory's mtime and ctime move when a name in it
// appears or goes, and not when a file in it is read.
func checkDirectoryTimes(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.write("outside", "x")
	step := func(what string, f func() error) {
		var before, after unix.Stat_t
		p.must(unix.Stat(p.at("d"), &before))
		clockTick()
		p.must(f())
		p.must(unix.Stat(p.at("d"), &after))
		p.note("%s: mtime moved %v, ctime moved %v", what, before.Mtim != after.Mtim, before.Ctim != after.Ctim)
	}
	step("create", func() error { return os.WriteFile(p.at("d/f"), nil, 0o644) })
	step("read", func() error { _, err := os.ReadFile(p.at("d/f")); return err })
	step("list", func() error { _, err := os.ReadDir(p.at("d")); return err })
	step("mkdir", func() error { return os.Mkdir(p.at("d/sub"), 0o755) })
	step("create in a subdirectory", func() error { return os.WriteFile(p.at("d/sub/f"), nil, 0o644) })
	step("symlink", func() error { return os.Symlink("f", p.at("d/l")) })
	step("link", func() error { return os.Link(p.at("d/f"), p.at("d/g")) })
	step("rename within", func() error { return os.Rename(p.at("d/g"), p.at("d/h")) })
	step("rename in", func() error { return os.Rename(p.at("outside"), p.at("d/in")) })
	step("rename out", func() error { return os.Rename(p.at("d/in"), p.at("outside")) })
	step("unlink", func() error { return os.Remove(p.at("d/h")) })
	step("chmod of a file", func() error { return os.Chmod(p.at("d/f"), 0o600) })
}

func checkChmod(p *probe) {
	p.write("f", "x")
	p.must(os.Mkdir(p.at("d"), 0o755))
	for _, mode := range []uint32{0, 0o777, 0o7777, 0o4755, 0o2644, 0o1000, 0o644} {
		for _, name := range []string{"f", "d"} {
			p.try(fmt.Sprintf("chmod %04o %s", mode, name), unix.Chmod(p.at(name), mode))
			p.stat(name)
		}
	}
	p.must(os.Symlink("f", p.at("l")))
	p.try("through a link", unix.Chmod(p.at("l"), 0o604))
	p.stat("l", "f")
	p.try("missing", unix.Chmod(p.at("no"), 0o644))
	p.as(testUID, testUID, nil, func() {
		p.try("by another", unix.Chmod(p.at("f"), 0o777))
	})
	p.must(os.Chown(p.at("f"), testUID, testGroup))
	p.as(testUID, testUID, nil, func() {
		p.try("setgid by a stranger to the group", unix.Chmod(p.at("f"), 0o2755))
		p.stat("f")
	})
	p.as(testUID, testUID, []int{testGroup}, func() {
		p.try("setgid by a member", unix.Chmod(p.at("f"), 0o2755))
		p.stat("f")
	})
}

// checkChmodWhileWriting: what is set before the close is kept by the commit.
func checkChmodWhileWriting(p *probe) {
	p.write("old", "old")
	for _, name := range []string{"old", "new"} {
		fd := p.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600)
		p.try("fchmod", unix.Fchmod(fd, 0o751))
		p.try("fchown", unix.Fchown(fd, 11, 12))
		p.try("fsetxattr", unix.Fsetxattr(fd, "user.note", []byte("kept"), 0))
		_, err := unix.Write(fd, []byte("content"))
		p.must(err)
		p.fstat(name, fd)
		p.stat(name)
		p.close(name, fd)
		p.stat(name)
		p.note("xattr %s", xattr(p, name, "user.note"))
		p.try("chmod after the close", unix.Chmod(p.at(name), 0o640))
		p.stat(name)
	}
	// The last descriptor may be closed after the mode forbids to open it again.
	fd := p.open("sealed", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0)
	_, err := unix.Write(fd, []byte("sealed"))
	p.try("write to a file of mode 0", err)
	p.close("sealed", fd)
	p.stat("sealed")
}

func checkChown(p *probe) {
	p.write("f", "x")
	p.must(os.Mkdir(p.at("d"), 0o755))
	for _, name := range []string{"f", "d"} {
		p.must(os.Chmod(p.at(name), os.ModeSetuid|os.ModeSetgid|0o755))
		p.try("chown "+name, unix.Chown(p.at(name), testUID, testGroup))
		p.stat(name)
		p.must(unix.Chmod(p.at(name), 0o6755))
		p.try("change nothing", unix.Chown(p.at(name), -1, -1))
		p.try("group alone", unix.Chown(p.at(name), -1, testUID))
		p.stat(name)
	}
	p.as(testUID, testUID, []int{testGroup}, func() {
		p.try("give away", unix.Chown(p.at("f"), 0, -1))
		p.try("to a group of mine", unix.Chown(p.at("f"), -1, testGroup))
		p.try("to a foreign group", unix.Chown(p.at("f"), -1, 0))
		p.stat("f")
	})
}

func checkSetgidDirectory(p *probe) {
	p.needsRoot()
	p.must(os.Mkdir(p.at("d"), 0o777))
	p.must(os.Chown(p.at("d"), 0, testGroup))
	p.must(unix.Chmod(p.at("d"), 0o2777))
	p.must(unix.Mkfifo(p.at("d/fifo"), 0o644))
	p.as(testUID, testUID, nil, func() {
		fd, err := unix.Open(p.at("d/f"), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o2755)
		p.try("create with setgid", err)
		p.fstat("f", fd)
		p.close("f", fd)
		p.try("mkdir", unix.Mkdir(p.at("d/sub"), 0o755))
		p.try("symlink", unix.Symlink("f", p.at("d/l")))
		p.try("mknod", unix.Mknod(p.at("d/n"), unix.S_IFREG|0o2711, 0))
		fd, err = unix.Open(p.at("d"), unix.O_TMPFILE|unix.O_RDWR, 0o644)
		p.try("tmpfile", err)
		p.fstat("tmpfile", fd)
		p.close("tmpfile", fd)
	})
	p.stat("d/f", "d/sub", "d/l", "d/n", "d/fifo")
}

// checkSetuidDropped: a write by somebody without CAP_FSETID drops setuid and,
// where the group may execute, setgid.
func checkSetuidDropped(p *probe) {
	for _, mode := range []uint32{0o4777, 0o2777, 0o6777, 0o2767} {
		name := fmt.Sprintf("m%o", mode)
		act := func(what string, uid int, f func(fd int) error) {
			p.write(name, "program")
			p.must(unix.Chmod(p.at(name), mode))
			p.as(uid, uid, nil, func() {
				fd := p.open(name, unix.O_WRONLY, 0)
				p.try(what, f(fd))
				p.close(name, fd)
			})
			p.stat(name)
			p.must(unix.Unlink(p.at(name)))
		}
		write := func(fd int) error { _, err := unix.Pwrite(fd, []byte("P"), 0); return err }
		act("write", testUID, write)
		act("truncate", testUID, func(fd int) error { return unix.Ftruncate(fd, 3) })
		act("nothing", testUID, func(int) error { return nil })
		act("write as root", 0, write)
	}
}

func checkUmask(p *probe) {
	for _, mask := range []int{0, 0o22, 0o77, 0o777} {
		unix.Umask(mask)
		name := fmt.Sprintf("u%03o", mask)
		fd := p.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o666)
		p.close(name, fd)
		p.must(unix.Mkdir(p.at(name+"d"), 0o777))
		p.must(unix.Mkfifo(p.at(name+"p"), 0o666))
		p.must(unix.Mknod(p.at(name+"n"), unix.S_IFREG|0o666, 0))
		p.stat(name, name+"d", name+"p", name+"n")
	}
	unix.Umask(0)
}
