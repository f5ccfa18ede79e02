package integration

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// rightsChecks covers who may do what: the kernel checks permissions on the
// mount as it does on any directory.
var rightsChecks = []posixCheck{
	{"FileRights", checkFileRights},
	{"DirectoryRights", checkDirectoryRights},
	{"StickyDirectory", checkStickyDirectory},
	{"GroupRights", checkGroupRights},
	{"RightsFromOpen", checkRightsFromOpen},
	{"OwnerOfNewFiles", checkOwnerOfNewFiles},
	{"WriteOfForeignFile", checkWriteOfForeignFile},
	{"SearchRights", checkSearchRights},
	{"CapabilitiesDropped", checkCapabilitiesDropped},
}

// checkFileRights opens files of every mode as owner, as group and as another.
func checkFileRights(p *probe) {
	p.needsRoot()
	for _, mode := range []uint32{0, 0o400, 0o200, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006, 0o111, 0o777} {
		name := fmt.Sprintf("m%03o", mode)
		p.write(name, "content")
		p.must(unix.Chown(p.at(name), testUID, testGroup))
		p.must(unix.Chmod(p.at(name), mode))
		for _, who := range []struct {
			name     string
			uid, gid int
		}{{"owner", testUID, testUID}, {"group", testUID + 1, testGroup}, {"other", testUID + 1, testUID + 1}} {
			p.as(who.uid, who.gid, nil, func() {
				for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_APPEND} {
					p.try(fmt.Sprintf("%s opens %s with %#x", who.name, name, flags), closing(unix.Open(p.at(name), flags, 0)))
				}
				p.try("access x", unix.Faccessat(unix.AT_FDCWD, p.at(name), unix.X_OK, unix.AT_EACCESS))
				p.try("truncate", unix.Truncate(p.at(name), 7))
				p.try("chmod", unix.Chmod(p.at(name), mode))
			})
		}
	}
}

// checkDirectoryRights changes names in directories of every mode.
func checkDirectoryRights(p *probe) {
	for _, mode := range []uint32{0, 0o1, 0o2, 0o3, 0o4, 0o5, 0o6, 0o7} {
		name := fmt.Sprintf("d%o", mode)
		p.must(os.Mkdir(p.at(name), 0o755))
		p.write(name+"/f", "x")
		p.must(os.Mkdir(p.at(name, "sub"), 0o777))
		p.must(os.Chmod(p.at(name, "f"), 0o666))
		p.must(unix.Chmod(p.at(name), mode))
		p.as(testUID, testUID, nil, func() {
			_, err := os.ReadDir(p.at(name))
			p.try(name+" list", err)
			p.try(name+" stat below", unix.Access(p.at(name, "f"), unix.F_OK))
			p.try(name+" read below", closing(unix.Open(p.at(name, "f"), unix.O_RDONLY, 0)))
			p.try(name+" write below", closing(unix.Open(p.at(name, "f"), unix.O_WRONLY, 0)))
			p.try(name+" create", closing(unix.Open(p.at(name, "n"), unix.O_WRONLY|unix.O_CREAT, 0o644)))
			p.try(name+" mkdir", unix.Mkdir(p.at(name, "m"), 0o755))
			p.try(name+" symlink", unix.Symlink("f", p.at(name, "l")))
			p.try(name+" link", unix.Link(p.at(name, "f"), p.at(name, "h")))
			p.try(name+" rename", unix.Rename(p.at(name, "f"), p.at(name, "g")))
			p.try(name+" rmdir", unix.Rmdir(p.at(name, "sub")))
			p.try(name+" unlink", unix.Unlink(p.at(name, "g")))
			p.try(name+" tmpfile", closing(unix.Open(p.at(name), unix.O_TMPFILE|unix.O_WRONLY, 0o600)))
			p.try(name+" chdir", unix.Chdir(p.at(name)))
			p.must(unix.Chdir("/"))
		})
		p.list(name)
	}
}

// checkStickyDirectory: in a directory like /tmp one removes and renames only
// what is one's own.
func checkStickyDirectory(p *probe) {
	const other = testUID + 1
	p.must(os.Mkdir(p.at("tmp"), 0o777))
	p.must(unix.Chmod(p.at("tmp"), 0o1777))
	create := func(name string, uid int) {
		p.as(uid, uid, nil, func() {
			fd := p.open("tmp/"+name, unix.O_WRONLY|unix.O_CREAT, 0o666)
			_, err := unix.Write(fd, []byte(name))
			p.must(err)
			p.close(name, fd)
		})
	}
	for _, name := range []string{"mine", "mine2"} {
		create(name, testUID)
	}
	create("theirs", other)
	p.as(testUID, testUID, nil, func() {
		p.try("unlink theirs", unix.Unlink(p.at("tmp/theirs")))
		p.try("rename theirs", unix.Rename(p.at("tmp/theirs"), p.at("tmp/x")))
		p.try("rename onto theirs", unix.Rename(p.at("tmp/mine"), p.at("tmp/theirs")))
		p.try("exchange with theirs", renameat2(p, "tmp/mine", "tmp/theirs", unix.RENAME_EXCHANGE))
		p.try("write theirs", closing(unix.Open(p.at("tmp/theirs"), unix.O_WRONLY, 0)))
		p.try("rewrite mine", os.WriteFile(p.at("tmp/mine"), []byte("rewritten"), 0o666))
		p.try("unlink mine", unix.Unlink(p.at("tmp/mine2")))
		p.try("rename mine", unix.Rename(p.at("tmp/mine"), p.at("tmp/mine2")))
	})
	p.list("tmp")
	p.stat("tmp/mine2", "tmp/theirs")
	p.must(unix.Chown(p.at("tmp"), other, other))
	p.as(other, other, nil, func() {
		p.try("the directory's owner unlinks", unix.Unlink(p.at("tmp/mine2")))
	})
}

func checkGroupRights(p *probe) {
	p.needsRoot()
	p.write("f", "x")
	p.must(unix.Chown(p.at("f"), 0, testGroup))
	p.must(unix.Chmod(p.at("f"), 0o660))
	for _, groups := range [][]int{nil, {testGroup}, {1, 2, 3, testGroup}} {
		p.as(testUID, testUID, groups, func() {
			p.try(fmt.Sprint("with groups ", groups), os.WriteFile(p.at("f"), []byte("y"), 0))
		})
		p.stat("f")
	}
}

// checkRightsFromOpen: what an open granted stays granted.
func checkRightsFromOpen(p *probe) {
	p.write("f", "content")
	p.must(unix.Chmod(p.at("f"), 0o666))
	p.as(testUID, testUID, nil, func() {
		r := p.open("f", unix.O_RDONLY, 0)
		w := p.open("f", unix.O_WRONLY, 0)
		p.must(threadIDs(unix.SYS_SETRESUID, 0))
		p.must(unix.Chmod(p.at("f"), 0))
		p.must(threadIDs(unix.SYS_SETRESUID, testUID))
		buf := make([]byte, 10)
		n, err := unix.Read(r, buf)
		p.note("read %q (%s)", buf[:n], errnoName(err))
		_, err = unix.Write(w, []byte("WRITTEN"))
		p.try("write", err)
		_, err = unix.Write(r, []byte("x"))
		p.try("write to a read-only descriptor", err)
		_, err = unix.Read(w, buf)
		p.try("read from a write-only descriptor", err)
		p.try("open again", closing(unix.Open(p.at("f"), unix.O_RDONLY, 0)))
		p.close("r", r)
		p.close("w", w)
	})
	p.read("f")
	p.stat("f")
}

func checkOwnerOfNewFiles(p *probe) {
	p.must(unix.Chmod(p.dir, 0o777))
	p.as(testUID, testGroup, nil, func() {
		fd := p.open("f", unix.O_RDWR|unix.O_CREAT, 0o640)
		p.fstat("while open", fd)
		p.close("f", fd)
		p.must(unix.Mkdir(p.at("d"), 0o750))
		p.must(unix.Symlink("f", p.at("l")))
		p.must(unix.Mkfifo(p.at("p"), 0o640))
	})
	p.stat("f", "d", "l", "p")
	p.must(unix.Chmod(p.dir, 0o755))
}

// checkWriteOfForeignFile: whoever may write a file may, even where he may not
// create names beside it or give files to its owner; and it stays its owner's.
func checkWriteOfForeignFile(p *probe) {
	p.must(os.Mkdir(p.at("closed"), 0o755))
	p.write("closed/f", "owned by root")
	p.must(unix.Chmod(p.at("closed/f"), 0o666))
	p.must(unix.Setxattr(p.at("closed/f"), "user.kept", []byte("yes"), 0))
	p.as(testUID, testUID, nil, func() {
		p.try("create beside it", os.WriteFile(p.at("closed/g"), nil, 0o644))
		p.try("rewrite", os.WriteFile(p.at("closed/f"), []byte("written by another"), 0))
		fd := p.open("closed/f", unix.O_RDWR, 0)
		_, err := unix.Pwrite(fd, []byte("WRITTEN"), 0)
		p.try("update", err)
		p.close("f", fd)
		p.try("truncate", unix.Truncate(p.at("closed/f"), 7))
	})
	p.read("closed/f")
	p.stat("closed/f")
	p.note("%s", xattr(p, "closed/f", "user.kept"))
	p.list("closed")
}

// checkSearchRights: every directory on the way counts, and a descriptor gets
// around none of them but its own.
func checkSearchRights(p *probe) {
	p.must(os.MkdirAll(p.at("open/locked/inner"), 0o755))
	p.write("open/locked/inner/f", "x")
	p.must(unix.Chmod(p.at("open/locked"), 0o700))
	fd := p.open("open/locked/inner", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p.as(testUID, testUID, nil, func() {
		p.try("through the locked one", unix.Access(p.at("open/locked/inner/f"), unix.F_OK))
		p.try("create below", os.WriteFile(p.at("open/locked/inner/g"), nil, 0o644))
		inner, err := unix.Openat(fd, "f", unix.O_RDONLY, 0)
		p.try("by a descriptor inside", err)
		p.close("f", inner)
		_, err = unix.Openat(fd, "../../x", unix.O_RDONLY, 0)
		p.try("up through the locked one", err)
	})
	p.close("inner", fd)
}

// checkCapabilitiesDropped: a write takes a file's capabilities away.
func checkCapabilitiesDropped(p *probe) {
	p.needsRoot()
	for _, uid := range []int{0, testUID} {
		p.write("f", "program")
		p.must(unix.Chmod(p.at("f"), 0o777))
		p.must(unix.Setxattr(p.at("f"), "security.capability", fileCapability, 0))
		p.as(uid, uid, nil, func() {
			p.try("write", os.WriteFile(p.at("f"), []byte("another program"), 0))
		})
		buf := make([]byte, 64)
		n, err := unix.Lgetxattr(p.at("f"), "security.capability", buf)
		p.note("uid %d leaves %v (%s)", uid, slices.Equal(buf[:max(n, 0)], fileCapability), errnoName(err))
		p.must(unix.Unlink(p.at("f")))
	}
}
