package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// nameChecks covers names and directories: odd names, long names, deep trees,
// big directories and reading a directory while it changes.
var nameChecks = []posixCheck{
	{"AnyByteInNames", checkAnyByteInNames},
	{"LongNames", checkLongNames},
	{"DotNames", checkDotNames},
	{"DeepTree", checkDeepTree},
	{"DirectoryErrors", checkDirectoryErrors},
	{"ReaddirTypes", checkReaddirTypes},
	{"ReaddirSeek", checkReaddirSeek},
	{"ReaddirWhileDeleting", checkReaddirWhileDeleting},
	{"ReaddirWhileCreating", checkReaddirWhileCreating},
	{"ReaddirRewind", checkReaddirRewind},
	{"Chdir", checkChdir},
	{"DirectoryDescriptor", checkDirectoryDescriptor},
}

// checkAnyByteInNames uses every byte that can stand in a name, alone and
// between others, in every operation that takes a name.
func checkAnyByteInNames(p *probe) {
	var want []string
	for b := 1; b < 256; b++ {
		for _, name := range []string{string([]byte{byte(b)}), "x" + string([]byte{byte(b)}) + "y"} {
			if b == '/' || name == "." {
				continue
			}
			want = append(want, name)
		}
	}
	want = append(want, "%s%n", "\\", "a\nb\nc", "\xff\xfe\xfd", "é", "e\u0301", "-rf", "~", "$(x)", "a b", "*", "\"'")
	slices.Sort(want)
	want = slices.Compact(want)
	for _, name := range want {
		p.must(os.Symlink(name, p.dir+"/"+name))
	}
	got, err := os.ReadDir(p.dir)
	p.must(err)
	var names []string
	for _, e := range got {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	p.note("all %d listed: %v", len(want), slices.Equal(names, want))
	for _, name := range want {
		if target, err := os.Readlink(p.dir + "/" + name); target != name || err != nil {
			p.note("%q leads to %q (%s)", name, target, errnoName(err))
		}
		p.must(os.Rename(p.dir+"/"+name, p.dir+"/"+name+"\xff"))
		p.must(os.Remove(p.dir + "/" + name + "\xff"))
	}
	for _, name := range []string{"\xff\xfe", "a\nb", "%s", "\\", " "} {
		p.must(os.WriteFile(p.dir+"/"+name, []byte("old"), 0o644))
		p.must(os.WriteFile(p.dir+"/"+name, []byte(name), 0o644))
		p.must(os.Link(p.dir+"/"+name, p.dir+"/"+name+"2"))
		p.must(unix.Setxattr(p.dir+"/"+name, "user.x", []byte(name), 0))
	}
	p.list(".")
}

func checkLongNames(p *probe) {
	for _, n := range []int{255, 256, 1000} {
		name := longName(n)
		p.try(fmt.Sprint("create ", n), os.WriteFile(p.at(name), []byte("long"), 0o644))
		p.try(fmt.Sprint("rewrite ", n), os.WriteFile(p.at(name), []byte("longer"), 0o644))
		p.try(fmt.Sprint("stat ", n), unix.Access(p.at(name), unix.F_OK))
		p.try(fmt.Sprint("symlink ", n), os.Symlink(name, p.at("l"+name[1:])))
		p.try(fmt.Sprint("link ", n), os.Link(p.at(name), p.at("h"+name[1:])))
		p.try(fmt.Sprint("write a linked ", n), os.WriteFile(p.at(name), []byte("longest"), 0o644))
		p.try(fmt.Sprint("mkdir ", n), os.Mkdir(p.at("d"+name[1:]), 0o755))
		p.try(fmt.Sprint("mkfifo ", n), unix.Mkfifo(p.at("p"+name[1:]), 0o644))
		p.try(fmt.Sprint("rename ", n), os.Rename(p.at(name), p.at("r"+name[1:])))
		p.try(fmt.Sprint("unlink ", n), unix.Unlink(p.at("r"+name[1:])))
	}
	p.list(".")
	p.try("open of a long path", closing(unix.Open("/"+strings.Repeat("x/", 2048), unix.O_RDONLY, 0)))
}

func checkDotNames(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.write("f", "x")
	p.try("mkdir .", unix.Mkdir(p.dir+"/.", 0o755))
	p.try("mkdir ..", unix.Mkdir(p.dir+"/d/..", 0o755))
	p.try("create .", closing(unix.Open(p.dir+"/.", unix.O_CREAT|unix.O_WRONLY, 0o644)))
	p.try("unlink .", unix.Unlink(p.dir+"/."))
	p.try("f/.", unix.Access(p.dir+"/f/.", unix.F_OK))
	p.try("f/..", unix.Access(p.dir+"/f/..", unix.F_OK))
	p.try("d/../f", unix.Access(p.dir+"/d/../f", unix.F_OK))
	p.try("d//./f", unix.Access(p.dir+"/d//.//../f", unix.F_OK))
	p.try("empty", unix.Access("", unix.F_OK))
	p.try("...", os.WriteFile(p.at("..."), nil, 0o644))
	p.list(".")
}

// checkDeepTree goes down until the path is three times PATH_MAX, with files
// at the bottom that only relative names can reach.
func checkDeepTree(p *probe) {
	const levels = 3 * unix.PathMax / 256
	p.must(os.Chdir(p.dir))
	name := strings.Repeat("d", 255)
	for range levels {
		p.must(unix.Mkdir(name, 0o755))
		p.must(unix.Chdir(name))
	}
	_, err := os.Stat(p.dir + strings.Repeat("/"+name, levels))
	p.try("by absolute path", err)
	buf := make([]byte, 4*unix.PathMax)
	_, err = unix.Getcwd(buf)
	p.try("getcwd", err)
	p.try("create", os.WriteFile("f", []byte("at the bottom"), 0o644))
	p.try("rewrite", os.WriteFile("f", []byte("still at the bottom"), 0o644))
	p.try("link", unix.Link("f", "g"))
	p.try("write the linked file", os.WriteFile("f", []byte("linked at the bottom"), 0o644))
	p.try("symlink", unix.Symlink("f", "l"))
	p.try("chmod", unix.Chmod("l", 0o600))
	p.try("rename up", unix.Rename("f", "../h"))
	p.try("xattr", unix.Setxattr("../h", "user.deep", []byte("x"), 0))
	b, err := os.ReadFile("../h")
	p.note("../h holds %q (%s)", b, errnoName(err))
	_, err = os.ReadFile("l")
	p.try("the link now dangles", err)
	for _, f := range []string{"g", "l", "../h"} {
		p.try("unlink "+f, unix.Unlink(f))
	}
	for range levels {
		p.must(unix.Chdir(".."))
		p.must(unix.Rmdir(name))
	}
	p.list(".")
}

func checkDirectoryErrors(p *probe) {
	p.must(os.MkdirAll(p.at("d/full"), 0o755))
	p.write("f", "x")
	p.try("mkdir onto a directory", unix.Mkdir(p.at("d"), 0o755))
	p.try("mkdir onto a file", unix.Mkdir(p.at("f"), 0o755))
	p.try("mkdir below a file", unix.Mkdir(p.at("f/x"), 0o755))
	p.try("mkdir below nothing", unix.Mkdir(p.at("no/x"), 0o755))
	p.try("mkdir with a slash", unix.Mkdir(p.at("slash")+"/", 0o755))
	p.try("mkdir with odd bits", unix.Mkdir(p.at("odd"), 0o7777))
	p.stat("odd", "slash")
	p.try("write to a directory", closing(unix.Open(p.at("d"), unix.O_WRONLY, 0)))
	fd := p.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	_, err := unix.Read(fd, make([]byte, 10))
	p.try("read of a directory", err)
	p.try("ftruncate of a directory", unix.Ftruncate(fd, 0))
	p.close("d", fd)
	fd = p.open("f", unix.O_RDONLY, 0)
	_, err = unix.Getdents(fd, make([]byte, 512))
	p.try("getdents of a file", err)
	p.close("f", fd)
}

// dirent is what getdents64(2) says about one name.
type dirent struct {
	ino  uint64
	off  int64
	typ  byte
	name string
}

// getdents reads the next chunk of a directory.
func getdents(p *probe, fd, size int) []dirent {
	buf := make([]byte, size)
	n, err := unix.Getdents(fd, buf)
	p.must(err)
	var out []dirent
	for b := buf[:n]; len(b) > 0; {
		reclen := binary.NativeEndian.Uint16(b[16:])
		name, _, _ := bytes.Cut(b[19:reclen], []byte{0})
		out = append(out, dirent{
			ino: binary.NativeEndian.Uint64(b), off: int64(binary.NativeEndian.Uint64(b[8:])),
			typ: b[18], name: string(name),
		})
		b = b[reclen:]
	}
	return out
}

// readDir reads a directory from where the descriptor stands to its end.
func readDir(p *probe, fd, size int) []dirent {
	var all []dirent
	for {
		chunk := getdents(p, fd, size)
		if len(chunk) == 0 {
			return all
		}
		all = append(all, chunk...)
	}
}

// checkReaddirTypes: d_type and d_ino agree with stat, dot entries included.
func checkReaddirTypes(p *probe) {
	p.must(os.Mkdir(p.at("w"), 0o755))
	makeKinds(&probe{dir: p.at("w")}, "k")
	p.try("a device, which root may make", unix.Mknod(p.at("w/null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	p.must(unix.Mknod(p.at("w/sock"), unix.S_IFSOCK|0o600, 0))
	fd := p.open("w", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	var lines []string
	for _, e := range readDir(p, fd, 4096) {
		var st unix.Stat_t
		p.must(unix.Lstat(p.dir+"/w/"+e.name, &st))
		typeAgrees := e.typ == unix.DT_UNKNOWN || uint32(e.typ)<<12 == st.Mode&unix.S_IFMT
		lines = append(lines, fmt.Sprintf("%q type %v inode %v", e.name, typeAgrees, e.ino == st.Ino))
	}
	slices.Sort(lines)
	p.note("%q", lines)
	p.close("w", fd)
}

// fill creates n empty files in a directory of the check's.
func fill(p *probe, dir string, n int) {
	p.must(os.Mkdir(p.at(dir), 0o755))
	for i := range n {
		p.must(unix.Mknod(p.at(dir, fmt.Sprintf("%s-%05d", strings.Repeat("n", i%40), i)), unix.S_IFREG|0o644, 0))
	}
}

// checkReaddirSeek goes back to every position that telldir(3) would give.
func checkReaddirSeek(p *probe) {
	fill(p, "w", repeat(300, 700))
	for _, size := range []int{300, 1024, 32 << 10} {
		fd := p.open("w", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		all := readDir(p, fd, size)
		wrong := 0
		for i := len(all) - 1; i > 0; i-- {
			_, err := unix.Seek(fd, all[i-1].off, unix.SEEK_SET)
			p.must(err)
			if got := getdents(p, fd, 300); len(got) == 0 || got[0] != all[i] {
				wrong++
			}
		}
		p.note("with %d bytes: %d names, %d found elsewhere after a seek", size, len(all), wrong)
		p.close("w", fd)
	}
}

// checkReaddirWhileDeleting removes what each chunk lists, as rm -r does.
func checkReaddirWhileDeleting(p *probe) {
	fill(p, "w", repeat(300, 1000))
	fd := p.open("w", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	removed := map[string]bool{}
	for {
		chunk := getdents(p, fd, 2048)
		if len(chunk) == 0 {
			break
		}
		for _, e := range chunk {
			if e.name == "." || e.name == ".." {
				continue
			}
			if removed[e.name] {
				p.note("%s listed after it was removed", e.name)
				continue
			}
			removed[e.name] = true
			p.must(unix.Unlinkat(fd, e.name, 0))
		}
	}
	p.note("removed %d", len(removed))
	p.close("w", fd)
	p.try("rmdir", unix.Rmdir(p.at("w")))
	p.must(os.MkdirAll(p.at("tree/a/b/c"), 0o755))
	for _, dir := range []string{"tree/x", "tree/a/y", "tree/a/b/c/z"} {
		fill(p, dir, repeat(50, 200))
	}
	p.note("rm -rf: %s", runBriefly(p, "rm", "-rf", "tree"))
	p.list(".")
}

// checkReaddirWhileCreating: what was there before the first read and stays is
// listed exactly once, whatever else is created and renamed meanwhile.
func checkReaddirWhileCreating(p *probe) {
	names := repeat(200, 600)
	fill(p, "w", names)
	fd := p.open("w", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	seen := map[string]int{}
	for i := 0; ; i++ {
		chunk := getdents(p, fd, 2048)
		if len(chunk) == 0 {
			break
		}
		for _, e := range chunk {
			seen[e.name]++
		}
		p.must(os.WriteFile(p.at("w", fmt.Sprintf("late-%d", i)), []byte("x"), 0o644))
		p.must(os.WriteFile(p.at("w", "-00000"), []byte("rewritten"), 0o644))
		p.must(os.Remove(p.at("w", fmt.Sprintf("late-%d", i))))
	}
	missing, twice := 0, 0
	for i := range names {
		switch name := fmt.Sprintf("%s-%05d", strings.Repeat("n", i%40), i); seen[name] {
		case 0:
			missing++
		case 1:
		default:
			if i != 0 { // the one that is rewritten may move
				twice++
			}
		}
	}
	p.note("missing %d, twice %d", missing, twice)
	p.close("w", fd)
	p.must(os.RemoveAll(p.at("w")))
}

func checkReaddirRewind(p *probe) {
	fill(p, "w", 10)
	fd := p.open("w", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p.note("first: %d", len(readDir(p, fd, 4096)))
	p.write("w/another", "x")
	p.note("at the end: %d", len(getdents(p, fd, 4096)))
	_, err := unix.Seek(fd, 0, unix.SEEK_SET)
	p.must(err)
	p.note("rewound: %d", len(readDir(p, fd, 4096)))
	p.close("w", fd)
}

func checkChdir(p *probe) {
	p.must(os.MkdirAll(p.at("a/b"), 0o711))
	p.must(unix.Chdir(p.at("a/b")))
	wd, err := os.Getwd()
	p.note("in %s (%s)", wd, errnoName(err))
	p.must(os.WriteFile("here", []byte("relative"), 0o644))
	p.must(unix.Rename(p.at("a"), p.at("moved")))
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	p.must(err)
	p.note("in %s after the rename", strings.TrimRight(string(buf[:n]), "\x00"))
	p.must(os.WriteFile("here", []byte("relative, again"), 0o644))
	p.read("moved/b/here")
	p.must(unix.Chdir("../.."))
	p.list(".")
}

// checkDirectoryDescriptor works below a directory descriptor, as openat does.
func checkDirectoryDescriptor(p *probe) {
	p.must(os.Mkdir(p.at("d"), 0o755))
	for _, flags := range []int{unix.O_RDONLY | unix.O_DIRECTORY, unix.O_PATH | unix.O_DIRECTORY} {
		dir := p.open("d", flags, 0)
		fd, err := unix.Openat(dir, "f", unix.O_RDWR|unix.O_CREAT, 0o644)
		p.try("openat", err)
		_, err = unix.Write(fd, []byte("below"))
		p.try("write", err)
		p.close("f", fd)
		p.try("mkdirat", unix.Mkdirat(dir, "s", 0o755))
		p.try("symlinkat", unix.Symlinkat("f", dir, "l"))
		p.try("linkat", unix.Linkat(dir, "f", dir, "g", 0))
		p.try("fchmodat", unix.Fchmodat(dir, "f", 0o600, 0))
		p.try("faccessat", unix.Faccessat(dir, "f", unix.R_OK, 0))
		p.try("renameat", unix.Renameat(dir, "g", dir, "s/g"))
		how := unix.OpenHow{Flags: unix.O_RDONLY, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
		fd, err = unix.Openat2(dir, "s/g", &how)
		p.try("openat2 beneath", err)
		p.close("s/g", fd)
		_, err = unix.Openat2(dir, "l", &how)
		p.try("openat2 through a link", err)
		var stx unix.Statx_t
		p.try("statx", unix.Statx(dir, "f", 0, unix.STATX_BASIC_STATS, &stx))
		p.note("statx: size %d mode %o", stx.Size, stx.Mode)
		entries, err := os.ReadDir(filepath.Join("/proc/self/fd", fmt.Sprint(dir)))
		p.note("%d entries (%s)", len(entries), errnoName(err))
		p.must(os.RemoveAll(p.at("d/s")))
		for _, name := range []string{"f", "l"} {
			p.try("unlinkat", unix.Unlinkat(dir, name, 0))
		}
		p.close("d", dir)
	}
}
