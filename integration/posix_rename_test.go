package integration

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameChecks covers rename(2), renameat2(2), link(2) and unlink(2): every
// operation that changes names.
var renameChecks = []posixCheck{
	{"RenameKinds", checkRenameKinds},
	{"RenameErrors", checkRenameErrors},
	{"RenameNoReplace", checkRenameNoReplace},
	{"RenameExchange", checkRenameExchange},
	{"RenameSameInode", checkRenameSameInode},
	{"RenameOverOpen", checkRenameOverOpen},
	{"RenameOwnOpen", checkRenameOwnOpen},
	{"RenameDirWithOpen", checkRenameDirWithOpen},
	{"RenameChangesCtime", checkRenameChangesCtime},
	{"RenameDotDot", checkRenameDotDot},
	{"UnlinkOpen", checkUnlinkOpen},
	{"UnlinkErrors", checkUnlinkErrors},
	{"RmdirErrors", checkRmdirErrors},
	{"RemoveOpenDir", checkRemoveOpenDir},
	{"CreateInRemovedDir", checkCreateInRemovedDir},
}

func renameat2(p *probe, from, to string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, p.at(from), unix.AT_FDCWD, p.at(to), flags)
}

// makeKinds creates one of each kind of file under a prefix.
func makeKinds(p *probe, prefix string) {
	p.write(prefix+"file", prefix)
	p.must(os.Mkdir(p.at(prefix+"dir"), 0o755))
	p.must(os.Mkdir(p.at(prefix+"full"), 0o755))
	p.write(prefix+"full/x", prefix)
	p.must(os.Symlink("nowhere", p.at(prefix+"link")))
	p.must(unix.Mkfifo(p.at(prefix+"fifo"), 0o644))
}

// checkRenameKinds renames every kind of file over every other.
func checkRenameKinds(p *probe) {
	kinds := []string{"file", "dir", "full", "link", "fifo", "missing"}
	for _, from := range kinds {
		for _, to := range kinds {
			p.must(os.Mkdir(p.at("w"), 0o755))
			p.must(os.Chdir(p.at("w")))
			makeKinds(&probe{dir: p.at("w")}, "a")
			makeKinds(&probe{dir: p.at("w")}, "b")
			p.try("rename "+from+" to "+to, unix.Rename("a"+from, "b"+to))
			p.list("w")
			p.stat("w/a"+from, "w/b"+to)
			p.must(os.Chdir(p.dir))
			p.must(os.RemoveAll(p.at("w")))
		}
	}
}

func checkRenameErrors(p *probe) {
	p.must(os.MkdirAll(p.at("d/e/f"), 0o755))
	p.write("file", "x")
	p.try("into itself", unix.Rename(p.at("d"), p.at("d/e/new")))
	p.try("onto its parent", unix.Rename(p.at("d/e"), p.at("d")))
	p.try("onto itself", unix.Rename(p.at("d"), p.at("d")))
	p.try("from below a file", unix.Rename(p.at("file/x"), p.at("y")))
	p.try("to below a file", unix.Rename(p.at("d"), p.at("file/x")))
	p.try("from a missing directory", unix.Rename(p.at("no/x"), p.at("y")))
	p.try("to a missing directory", unix.Rename(p.at("file"), p.at("no/x")))
	p.try("of dot", unix.Rename(p.at("d")+"/.", p.at("y")))
	p.try("of dotdot", unix.Rename(p.at("d")+"/..", p.at("y")))
	p.try("file with a slash", unix.Rename(p.at("file")+"/", p.at("y")))
	p.try("directory with a slash", unix.Rename(p.at("d")+"/", p.at("d2")+"/"))
	p.try("file to a slash", unix.Rename(p.at("file"), p.at("y")+"/"))
	p.try("long name", unix.Rename(p.at("file"), p.at(longName(256))))
	p.list(".")
}

func checkRenameNoReplace(p *probe) {
	p.write("a", "a")
	p.write("b", "b")
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.try("onto a file", renameat2(p, "a", "b", unix.RENAME_NOREPLACE))
	p.try("onto a directory", renameat2(p, "a", "d", unix.RENAME_NOREPLACE))
	p.try("onto itself", renameat2(p, "a", "a", unix.RENAME_NOREPLACE))
	p.try("to a new name", renameat2(p, "a", "c", unix.RENAME_NOREPLACE))
	p.try("of a missing file", renameat2(p, "a", "e", unix.RENAME_NOREPLACE))
	p.try("directory into another", renameat2(p, "d", "e", unix.RENAME_NOREPLACE))
	p.list(".")
	p.read("b")
	p.read("c")
}

func checkRenameExchange(p *probe) {
	p.write("a", "a")
	p.write("b", "bb")
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.write("d/x", "x")
	fd := p.open("a", unix.O_RDONLY, 0)
	p.try("two files", renameat2(p, "a", "b", unix.RENAME_EXCHANGE))
	p.read("a")
	p.read("b")
	p.fstat("the old a", fd)
	p.close("the old a", fd)
	p.try("a file and a directory", renameat2(p, "a", "d", unix.RENAME_EXCHANGE))
	p.read("a/x")
	p.read("d")
	p.try("with a missing file", renameat2(p, "a", "no", unix.RENAME_EXCHANGE))
	p.try("with its own parent", renameat2(p, "a", "a/x", unix.RENAME_EXCHANGE))
	p.try("with itself", renameat2(p, "a", "a", unix.RENAME_EXCHANGE))
	p.try("and noreplace", renameat2(p, "a", "b", unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE))
	p.try("unknown flag", renameat2(p, "a", "b", 1<<10))
	p.list(".")
}

// checkRenameSameInode: when both names are links to one file, rename does nothing.
func checkRenameSameInode(p *probe) {
	p.write("a", "one")
	p.must(os.Link(p.at("a"), p.at("b")))
	p.try("onto another link", unix.Rename(p.at("a"), p.at("b")))
	p.stat("a", "b")
	p.try("noreplace onto another link", renameat2(p, "a", "b", unix.RENAME_NOREPLACE))
	p.try("exchange", renameat2(p, "a", "b", unix.RENAME_EXCHANGE))
	p.try("away", unix.Rename(p.at("a"), p.at("c")))
	p.stat("a", "b", "c")
}

// checkRenameOverOpen: descriptors of the replaced file keep it.
func checkRenameOverOpen(p *probe) {
	p.write("old", "old content")
	p.write("new", "new")
	r := p.open("old", unix.O_RDONLY, 0)
	p.must(unix.Rename(p.at("new"), p.at("old")))
	p.fstat("replaced", r)
	buf := make([]byte, 64)
	n, err := unix.Pread(r, buf, 0)
	p.note("reads %q (%s)", buf[:n], errnoName(err))
	p.read("old")
	p.close("replaced", r)
	p.stat("old", "new")
}

// checkRenameOwnOpen: a file that is being written moves under its descriptor.
func checkRenameOwnOpen(p *probe) {
	p.write("a", "before")
	p.must(os.Mkdir(p.at("d"), 0o755))
	fd := p.open("a", unix.O_RDWR, 0)
	_, err := unix.Write(fd, []byte("after the open"))
	p.must(err)
	p.try("to another directory", unix.Rename(p.at("a"), p.at("d/b")))
	p.read("d/b")
	p.stat("a", "d/b")
	_, err = unix.Write(fd, []byte(" and the rename"))
	p.try("write", err)
	p.read("d/b")
	p.close("written", fd)
	p.read("d/b")

	// The same for a file that is new, and renamed over another one.
	p.write("target", "to be replaced")
	fd = p.open("temp", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	_, err = unix.Write(fd, []byte("fresh"))
	p.must(err)
	p.try("new over old", unix.Rename(p.at("temp"), p.at("target")))
	p.stat("temp", "target")
	p.read("target")
	_, err = unix.Write(fd, []byte(", more"))
	p.try("write", err)
	p.close("new", fd)
	p.read("target")
	p.list(".")

	// And for a file renamed onto one that is being written.
	p.write("other", "other")
	fd = p.open("target", unix.O_RDWR|unix.O_TRUNC, 0)
	_, err = unix.Write(fd, []byte("lost"))
	p.must(err)
	p.try("over the written one", unix.Rename(p.at("other"), p.at("target")))
	p.fstat("replaced while written", fd)
	p.close("replaced while written", fd)
	p.read("target")
	p.list(".")
}

// checkRenameDirWithOpen: files written below a directory move along with it.
func checkRenameDirWithOpen(p *probe) {
	p.must(os.MkdirAll(p.at("d/e"), 0o755))
	p.write("d/e/old", "old")
	upd := p.open("d/e/old", unix.O_RDWR|unix.O_TRUNC, 0)
	fresh := p.open("d/e/fresh", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o640)
	p.try("rename the grandparent", unix.Rename(p.at("d"), p.at("m")))
	p.stat("d", "m/e/old", "m/e/fresh")
	for _, fd := range []int{upd, fresh} {
		_, err := unix.Write(fd, []byte("written after the move"))
		p.try("write", err)
	}
	p.try("rename the parent", unix.Rename(p.at("m/e"), p.at("n")))
	p.close("update", upd)
	p.close("fresh", fresh)
	p.read("n/old")
	p.read("n/fresh")
	p.try("remove", os.RemoveAll(p.at("n")))
	p.list(".")
}

func checkRenameChangesCtime(p *probe) {
	ctime := func(name string) unix.Timespec {
		var st unix.Stat_t
		p.must(unix.Lstat(p.at(name), &st))
		return st.Ctim
	}
	p.write("f", "x")
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.must(os.Symlink("f", p.at("l")))
	for _, name := range []string{"f", "d", "l"} {
		before := ctime(name)
		clockTick()
		p.must(unix.Rename(p.at(name), p.at(name+"2")))
		p.note("ctime of %s moved: %v", name, ctime(name+"2") != before)
	}
}

// checkRenameDotDot: the parent of a moved directory is the new one.
func checkRenameDotDot(p *probe) {
	p.must(os.MkdirAll(p.at("a/d"), 0o755))
	p.must(os.Mkdir(p.at("b"), 0o755))
	p.write("a/in", "a")
	p.write("b/in", "b")
	fd := p.open("a/d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p.must(os.Chdir(p.at("a/d")))
	p.must(unix.Rename(p.at("a/d"), p.at("b/d")))
	up, err := unix.Openat(fd, "../in", unix.O_RDONLY, 0)
	p.must(err)
	b := make([]byte, 8)
	n, _ := unix.Read(up, b)
	p.note("../in through the descriptor: %q", b[:n])
	p.must(unix.Close(up))
	p.must(unix.Close(fd))
	got, err := os.ReadFile("../in")
	p.note("../in from the working directory: %q (%s)", got, errnoName(err))
	wd, err := os.Getwd()
	p.note("working directory %s (%s)", wd, errnoName(err))
	p.stat("a", "b")
}

// checkUnlinkOpen: a file without a name lives as long as its descriptors.
func checkUnlinkOpen(p *probe) {
	p.write("r", "read me")
	p.write("w", "write me")
	r := p.open("r", unix.O_RDONLY, 0)
	w := p.open("w", unix.O_RDWR, 0)
	n := p.open("n", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	for _, name := range []string{"r", "w", "n"} {
		p.try("unlink "+name, unix.Unlink(p.at(name)))
	}
	p.list(".")
	p.fstat("read", r)
	p.fstat("updated", w)
	p.fstat("new", n)
	for _, fd := range []int{w, n} {
		_, err := unix.Pwrite(fd, []byte("still here"), 3)
		p.try("write", err)
		p.try("truncate", unix.Ftruncate(fd, 9))
		p.try("chmod", unix.Fchmod(fd, 0o604))
		p.fstat("after", fd)
	}
	buf := make([]byte, 32)
	for _, fd := range []int{r, w, n} {
		got, err := unix.Pread(fd, buf, 0)
		p.note("holds %q (%s)", buf[:got], errnoName(err))
	}
	p.write("w", "another file of that name")
	for _, fd := range []int{r, w, n} {
		p.close("unlinked", fd)
	}
	p.read("w")
	p.list(".")
}

func checkUnlinkErrors(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.write("f", "x")
	p.try("a directory", unix.Unlink(p.at("d")))
	p.try("a missing file", unix.Unlink(p.at("no")))
	p.try("below a file", unix.Unlink(p.at("f/x")))
	p.try("with a slash", unix.Unlink(p.at("f")+"/"))
	p.try("long name", unix.Unlink(p.at(longName(256))))
	p.list(".")
}

func checkRmdirErrors(p *probe) {
	p.must(os.MkdirAll(p.at("d/e"), 0o755))
	p.write("f", "x")
	p.try("full", unix.Rmdir(p.at("d")))
	p.try("a file", unix.Rmdir(p.at("f")))
	p.try("missing", unix.Rmdir(p.at("no")))
	p.try("dot", unix.Rmdir(p.at("d/e")+"/."))
	p.try("dotdot", unix.Rmdir(p.at("d/e")+"/.."))
	fd := p.open("d/e/new", unix.O_WRONLY|unix.O_CREAT, 0o644)
	p.try("holds a file being created", unix.Rmdir(p.at("d/e")))
	p.close("new", fd)
	p.must(unix.Unlink(p.at("d/e/new")))
	p.try("empty", unix.Rmdir(p.at("d/e")))
	p.list("d")
}

func checkRemoveOpenDir(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	fd := p.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p.must(os.Chdir(p.at("d")))
	p.try("rmdir", unix.Rmdir(p.at("d")))
	p.fstat("removed", fd)
	_, err := unix.Openat(fd, "x", unix.O_WRONLY|unix.O_CREAT, 0o644)
	p.try("create in it", err)
	p.try("mkdir in it", unix.Mkdirat(fd, "y", 0o755))
	p.try("open ..", unix.Access("../d", unix.F_OK))
	buf := make([]byte, 4096)
	n, err := unix.Getdents(fd, buf)
	p.note("getdents: %d (%s)", n, errnoName(err))
	p.close("removed", fd)
}

// checkCreateInRemovedDir: a file being created keeps nothing alive that was removed.
func checkCreateInRemovedDir(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	fd := p.open("d/x", unix.O_RDWR|unix.O_CREAT, 0o644)
	p.try("unlink", unix.Unlink(p.at("d/x")))
	p.try("rmdir", unix.Rmdir(p.at("d")))
	_, err := unix.Write(fd, []byte("into the void"))
	p.try("write", err)
	p.fstat("orphan", fd)
	p.close("orphan", fd)
	p.list(".")
}
