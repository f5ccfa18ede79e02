package integration

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// xattrChecks covers extended attributes and ACLs.
var xattrChecks = []posixCheck{
	{"Xattrs", checkXattrs},
	{"XattrsSurviveWrites", checkXattrsSurviveWrites},
	{"XattrRights", checkXattrRights},
	{"ACLs", checkACLs},
	{"DefaultACLAndUmask", checkDefaultACLAndUmask},
}

// xattr reads one extended attribute for a note.
func xattr(p *probe, name, attr string) string {
	buf := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(p.at(name), attr, buf)
	return fmt.Sprintf("%s %s (%s)", attr, brief(buf[:max(n, 0)]), errnoName(err))
}

func checkXattrs(p *probe) {
	p.write("f", "x")
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.must(os.Symlink("f", p.at("l")))
	for _, name := range []string{"f", "d", "l"} {
		set := func(what, attr, value string, flags int) {
			p.try(name+": "+what, unix.Lsetxattr(p.at(name), attr, []byte(value), flags))
		}
		set("set", "user.a", "one", 0)
		set("create again", "user.a", "two", unix.XATTR_CREATE)
		set("replace", "user.a", "three", unix.XATTR_REPLACE)
		set("replace a missing one", "user.b", "x", unix.XATTR_REPLACE)
		set("empty", "user.empty", "", 0)
		set("bytes", "user.\xff\n", "\x00\xff", 0)
		set("trusted", "trusted.t", "t", 0)
		set("no namespace", "plain", "x", 0)
		set("unknown namespace", "unknown.x", "x", 0)
		set("long value", "user.long", strings.Repeat("v", 2000), 0)
		set("name too long", "user."+strings.Repeat("n", 251), "x", 0)
		for _, attr := range []string{"user.a", "user.empty", "user.\xff\n", "trusted.t", "user.long", "user.no", "plain"} {
			p.note("%s", xattr(p, name, attr))
		}
		buf := make([]byte, 4096)
		n, err := unix.Llistxattr(p.at(name), buf)
		p.note("list %q (%s)", sortedNames(buf[:max(n, 0)]), errnoName(err))
		n, err = unix.Llistxattr(p.at(name), nil)
		p.note("list size %d (%s)", n, errnoName(err))
		_, err = unix.Lgetxattr(p.at(name), "user.a", make([]byte, 2))
		p.try("short buffer", err)
		n, err = unix.Lgetxattr(p.at(name), "user.a", nil)
		p.note("size %d (%s)", n, errnoName(err))
		p.try("remove", unix.Lremovexattr(p.at(name), "user.a"))
		p.try("remove again", unix.Lremovexattr(p.at(name), "user.a"))
	}
	_, err := unix.Getxattr(p.at("no"), "user.a", nil)
	p.try("of a missing file", err)
}

// sortedNames splits a list of xattr names, which comes in any order.
func sortedNames(list []byte) []string {
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	slices.Sort(names)
	return names
}

// checkXattrsSurviveWrites: every way of writing keeps the attributes of the file.
func checkXattrsSurviveWrites(p *probe) {
	p.needsRoot()
	p.write("f", "content")
	p.must(unix.Setxattr(p.at("f"), "user.kept", []byte("yes"), 0))
	p.must(unix.Setxattr(p.at("f"), "trusted.kept", []byte("too"), 0))
	p.must(unix.Setxattr(p.at("f"), "security.capability", fileCapability, 0))
	p.must(unix.Lchown(p.at("f"), 21, 22))
	p.must(unix.Chmod(p.at("f"), 0o754))
	p.write("f", "rewritten")
	p.try("truncate", unix.Truncate(p.at("f"), 3))
	fd := p.open("f", unix.O_WRONLY, 0)
	_, err := unix.Write(fd, []byte("u"))
	p.must(err)
	p.close("f", fd)
	p.stat("f")
	p.read("f")
	for _, attr := range []string{"user.kept", "trusted.kept", "security.capability"} {
		p.note("%s", xattr(p, "f", attr))
	}
}

// fileCapability is a valid security.capability value: revision 2,
// cap_net_bind_service permitted (linux/capability.h, struct vfs_cap_data).
var fileCapability = []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

func checkXattrRights(p *probe) {
	p.needsRoot()
	p.write("f", "x")
	p.must(unix.Setxattr(p.at("f"), "user.a", []byte("x"), 0))
	p.must(unix.Setxattr(p.at("f"), "trusted.a", []byte("x"), 0))
	p.as(testUID, testUID, nil, func() {
		p.note("%s", xattr(p, "f", "user.a"))
		p.note("%s", xattr(p, "f", "trusted.a"))
		buf := make([]byte, 256)
		n, err := unix.Llistxattr(p.at("f"), buf)
		p.note("list %q (%s)", sortedNames(buf[:max(n, 0)]), errnoName(err))
		p.try("set on a foreign file", unix.Lsetxattr(p.at("f"), "user.b", nil, 0))
		p.try("remove from a foreign file", unix.Lremovexattr(p.at("f"), "user.a"))
	})
	p.must(os.Chmod(p.at("f"), 0o200))
	p.as(testUID, testUID, nil, func() { p.note("unreadable: %s", xattr(p, "f", "user.a")) })
}

// acl runs getfacl or setfacl in the directory under test.
func acl(p *probe, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s: %v", out, err)
	}
	return string(out)
}

func checkACLs(p *probe) {
	p.write("f", "for a friend")
	p.must(os.Mkdir(p.at("d"), 0o755))
	p.must(os.Chmod(p.at("f"), 0o640))
	friend := fmt.Sprint("u:", testUID, ":r--")
	p.note("setfacl %s", acl(p, "setfacl", "-m", friend, "f"))
	p.note("getfacl %s", acl(p, "getfacl", "-cn", "f"))
	p.stat("f")
	p.as(testUID, testUID, nil, func() { p.read("f") })
	p.as(testUID+1, testUID+1, nil, func() { p.read("f") })
	p.write("f", "rewritten for a friend")
	p.note("after a rewrite %s", acl(p, "getfacl", "-cn", "f"))
	p.as(testUID, testUID, nil, func() { p.read("f") })
	p.as(testUID+1, testUID+1, nil, func() { p.read("f") })
	p.try("chmod narrows the mask", unix.Chmod(p.at("f"), 0o600))
	p.note("getfacl %s", acl(p, "getfacl", "-cn", "f"))
	p.as(testUID, testUID, nil, func() { p.read("f") })
	p.note("setfacl -b %s", acl(p, "setfacl", "-b", "f"))
	p.note("getfacl %s", acl(p, "getfacl", "-cn", "f"))
	p.note("setfacl -d %s", acl(p, "setfacl", "-d", "-m", friend, "d"))
	fd := p.open("d/n", unix.O_WRONLY|unix.O_CREAT, 0o660)
	p.close("d/n", fd)
	p.must(os.Mkdir(p.at("d/sub"), 0o777))
	for _, name := range []string{"d", "d/n", "d/sub"} {
		p.note("getfacl %s %s", name, acl(p, "getfacl", "-cn", name))
	}
	p.as(testUID, testUID, nil, func() {
		p.try("a stranger sets one", unix.Lsetxattr(p.at("d"), "system.posix_acl_access", nil, 0))
	})
}

// checkDefaultACLAndUmask: where a directory has a default ACL, the umask counts for nothing.
func checkDefaultACLAndUmask(p *probe) {
	p.must(os.Mkdir(p.at("with"), 0o755))
	p.must(os.Mkdir(p.at("without"), 0o755))
	p.note("setfacl %s", acl(p, "setfacl", "-d", "-m", "g::rwx,o::r--", "with"))
	unix.Umask(0o77)
	defer unix.Umask(0)
	for _, dir := range []string{"with", "without"} {
		fd := p.open(dir+"/f", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o666)
		p.fstat("while open", fd)
		_, err := unix.Write(fd, []byte("x"))
		p.must(err)
		p.close(dir, fd)
		p.must(unix.Mkdir(p.at(dir, "d"), 0o777))
		p.must(unix.Mkfifo(p.at(dir, "p"), 0o666))
		tmp := p.open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o666)
		p.fstat("tmpfile", tmp)
		p.close("tmpfile", tmp)
		p.stat(dir+"/f", dir+"/d", dir+"/p")
	}
}
