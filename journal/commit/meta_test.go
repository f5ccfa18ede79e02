package commit

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// acl returns the value of a POSIX ACL attribute (acl(5), linux/posix_acl_xattr.h)
// with the entries user::u, user:1234:named, group::g, mask::m and other::o.
func acl(u, named, g, m, o uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	entry := func(tag, perm uint16, id uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, perm)
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	const none = ^uint32(0)
	entry(0x01, u, none)
	entry(0x02, named, 1234)
	entry(0x04, g, none)
	entry(0x10, m, none)
	entry(0x20, o, none)
	return b
}

// capNetRaw is security.capability (capabilities(7)) for cap_net_raw=ep.
var capNetRaw = []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

type metadata struct {
	Mode, UID, GID uint32
	Atime, Mtime   unix.Timespec
	Xattrs         map[string]string
	Flags          uint32
}

func metadataOf(t *testing.T, fd int) metadata {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Fstat(fd, &st))
	m := metadata{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Atime: st.Atim, Mtime: st.Mtim, Xattrs: map[string]string{}}
	names, err := disk.ListXattrs(fd)
	check(t, err)
	for _, name := range names {
		value, err := disk.GetXattr(fd, name)
		check(t, err)
		m.Xattrs[name] = string(value)
	}
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil {
		m.Flags = flags & disk.KeptFlags
	}
	return m
}

func root(t *testing.T) bool {
	t.Helper()
	return os.Geteuid() == 0
}

func TestShadowHasTheMetadataOfItsBase(t *testing.T) {
	dress := map[string]func(t *testing.T, path string){
		"plain": func(t *testing.T, path string) {},
		"mode":  func(t *testing.T, path string) { check(t, unix.Chmod(path, 0o7415)) },
		"attributes": func(t *testing.T, path string) {
			check(t, unix.Setxattr(path, "user.empty", nil, 0))
			check(t, unix.Setxattr(path, "user.long", []byte(strings.Repeat("x", 1500)), 0))
		},
		"acl": func(t *testing.T, path string) {
			check(t, unix.Setxattr(path, "system.posix_acl_access", acl(6, 7, 4, 7, 0), 0))
		},
		"times": func(t *testing.T, path string) {
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: 5, Nsec: 6}, {Sec: 7, Nsec: 8}}, 0))
		},
		"nodump": func(t *testing.T, path string) {
			fd := int(openFile(t, path, os.O_RDWR).Fd())
			flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			check(t, err)
			check(t, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|0x40)))
		},
	}
	if root(t) {
		dress["owner"] = func(t *testing.T, path string) {
			check(t, unix.Chown(path, 1234, 4321))
			check(t, unix.Chmod(path, 0o6755))
			check(t, unix.Setxattr(path, "trusted.note", []byte("root's"), 0))
			check(t, unix.Setxattr(path, "security.capability", capNetRaw, 0))
			check(t, unix.Setxattr(path, "system.posix_acl_access", acl(7, 0, 5, 5, 5), 0))
		}
	}
	directories := map[string]func(t *testing.T, path string){
		"plain": func(t *testing.T, path string) {},
		"default acl": func(t *testing.T, path string) {
			check(t, unix.Setxattr(path, disk.XattrDefaultACL, acl(7, 7, 7, 7, 7), 0))
		},
		"setgid": func(t *testing.T, path string) { check(t, os.Chmod(path, 0o777|os.ModeSetgid)) },
	}
	eachFS(t, func(t *testing.T, w *world) {
		for dname, dressDir := range directories {
			for name, dress := range dress {
				t.Run(dname+"/"+name, func(t *testing.T) {
					check(t, os.RemoveAll(w.path("d")))
					w.write("d/f", "content")
					dress(t, w.path("d/f"))
					dressDir(t, w.path("d"))
					base := openFile(t, w.path("d/f"), os.O_RDONLY|unix.O_NOATIME)
					want := metadataOf(t, int(base.Fd()))
					old := unix.Umask(0o077)
					defer unix.Umask(old)
					sh, err := w.s.NewShadow(w.shadowOptions("d/f", base))
					check(t, err)
					defer sh.Discard()
					check(t, sh.MustInPlace())
					if diff := cmp.Diff(want, metadataOf(t, sh.FD())); diff != "" {
						t.Errorf("after NewShadow: %s", diff)
					}
					check(t, sh.Fill(int(base.Fd())))
					if diff := cmp.Diff(want, metadataOf(t, sh.FD())); diff != "" {
						t.Errorf("after Fill: %s", diff)
					}
					v := disk.VersionOf(statFD(t, int(base.Fd())))
					check(t, sh.Mark())
					_, err = sh.Publish(w.publishOptions("d/f", &v))
					check(t, err)
					got := metadataOf(t, int(openFile(t, w.path("d/f"), os.O_RDONLY|unix.O_NOATIME).Fd()))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("after Publish: %s", diff)
					}
				})
			}
		}
	})
}

func statFD(t testing.TB, fd int) *unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Fstat(fd, &st))
	return &st
}

// A new file must look exactly as if the caller had made it with open(2), with
// whatever umask the daemon happens to have.
func TestNewFileIsAsOpenMakesIt(t *testing.T) {
	directories := map[string]func(t *testing.T, path string){
		"plain":  func(t *testing.T, path string) {},
		"setgid": func(t *testing.T, path string) { check(t, os.Chmod(path, 0o777|os.ModeSetgid)) },
		"default acl": func(t *testing.T, path string) {
			check(t, unix.Setxattr(path, disk.XattrDefaultACL, acl(7, 7, 5, 7, 4), 0))
		},
		"minimal default acl": func(t *testing.T, path string) {
			b := acl(6, 0, 4, 0, 0)
			minimal := append(append(append([]byte{}, b[:12]...), b[20:28]...), b[36:]...)
			check(t, unix.Setxattr(path, disk.XattrDefaultACL, minimal, 0))
		},
	}
	eachFS(t, func(t *testing.T, w *world) {
		for name, dress := range directories {
			for _, mode := range []uint32{0o644, 0o600, 0o777, 0o4755, 0o2755} {
				check(t, os.RemoveAll(w.path("d")))
				check(t, os.Mkdir(w.path("d"), 0o777))
				if root(t) {
					check(t, os.Chown(w.path("d"), 0, 77))
				}
				dress(t, w.path("d"))
				// What the kernel does where no umask gets in the way.
				old := unix.Umask(0)
				fd, err := unix.Open(w.path("d/native"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, mode)
				unix.Umask(old)
				check(t, err)
				want := metadataOf(t, fd)
				unix.Close(fd)
				for _, umask := range []int{0, 0o022, 0o077} {
					o := w.shadowOptions("d/f", nil)
					o.Mode = mode
					if root(t) {
						o.UID, o.GID = 1234, 4321
						want.UID = 1234
						if name != "setgid" {
							want.GID = 4321
						}
					}
					old := unix.Umask(umask)
					sh, err := w.s.NewShadow(o)
					unix.Umask(old)
					check(t, err)
					got := metadataOf(t, sh.FD())
					got.Atime, got.Mtime = want.Atime, want.Mtime
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s, mode %04o, umask %03o: %s", name, mode, umask, diff)
					}
					check(t, sh.Discard())
				}
			}
		}
	})
}

// What an ordinary user may do, and that the rest is refused in a way that
// leads to InPlace. The test runs itself again as nobody.
func TestOrdinaryUser(t *testing.T) {
	const env = "LATCHFS_TEST_ORDINARY_USER"
	if at := os.Getenv(env); at != "" {
		for name := range filesystems {
			delete(filesystems, name)
		}
		filesystems["child"] = at
		eachFS(t, ordinaryUser)
		return
	}
	if !root(t) {
		eachFS(t, ordinaryUser)
		return
	}
	for name, at := range filesystems {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(at, "nobody-")
			check(t, err)
			defer os.RemoveAll(dir)
			check(t, os.Chown(dir, 65534, 65534))
			check(t, os.WriteFile(filepath.Join(dir, "roots"), []byte("old"), 0o666))
			check(t, os.Chmod(filepath.Join(dir, "roots"), 0o666))
			check(t, os.Mkdir(filepath.Join(dir, "locked"), 0o755))
			check(t, os.WriteFile(filepath.Join(dir, "locked", "f"), []byte("old"), 0o666))
			check(t, os.Chown(filepath.Join(dir, "locked", "f"), 65534, 65534))
			// The test binary may lie where nobody may not go.
			exe := filepath.Join(dir, "test")
			self, err := os.ReadFile("/proc/self/exe")
			check(t, err)
			check(t, os.WriteFile(exe, self, 0o755))
			cmd := exec.Command(exe, "-test.run=^TestOrdinaryUser$", "-test.v")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), env+"="+dir, "TMPDIR="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestOrdinaryUser/child") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func ordinaryUser(t *testing.T, w *world) {
	w.write("f", "old")
	sh, base := w.shadowOf("f")
	check(t, sh.MustInPlace())
	check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
	_, err := sh.Publish(w.publishOptions("f", base))
	check(t, err)
	id, err := sh.Reject(nil)
	check(t, err)
	if w.read("f") != "new" || w.read(".latchfs/rejected/"+id+"/content") != "new" {
		t.Error("not published, or not kept")
	}
	check(t, sh.Discard())
	// Filling is a write without CAP_FSETID: it must not cost the bit.
	check(t, unix.Chmod(w.path("f"), 0o4755))
	sh, _ = w.shadowOf("f")
	if mode := statFD(t, sh.FD()).Mode; mode != unix.S_IFREG|0o4755 {
		t.Errorf("mode %o", mode)
	}
	check(t, sh.Discard())
	// A directory without permission to list: durable all the same.
	check(t, os.Mkdir(w.path("blind"), 0o300))
	fresh, err := w.s.NewShadow(w.shadowOptions("blind/f", nil))
	check(t, err)
	_, err = fresh.Publish(w.publishOptions("blind/f", nil))
	check(t, err)
	check(t, fresh.Discard())
	check(t, os.Chmod(w.path("blind"), 0o700))
	w.checkNothingLeft()
	if os.Getenv("LATCHFS_TEST_ORDINARY_USER") == "" {
		return // the rest needs files of somebody else
	}
	above := filepath.Dir(w.root)
	for _, name := range []string{"roots", "locked/f"} {
		outer := newWorldAt(t, w, above)
		target := openFile(t, outer.path(name), os.O_RDWR)
		before := statFD(t, int(target.Fd()))
		sh, base := outer.shadowOf(name)
		check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		if _, err := sh.Publish(outer.publishOptions(name, base)); !errors.Is(err, ErrCannotPreserve) || !errors.Is(sh.MustInPlace(), ErrCannotPreserve) {
			t.Errorf("%s: Publish: %v", name, err)
		}
		_, err = sh.InPlace(int(target.Fd()), outer.publishOptions(name, base))
		check(t, err)
		check(t, sh.Discard())
		after := statFD(t, int(target.Fd()))
		if outer.read(name) != "new" || before.Uid != after.Uid || before.Mode != after.Mode || before.Ino != after.Ino {
			t.Errorf("%s: %q, before %+v, after %+v", name, outer.read(name), before, after)
		}
		outer.checkNothingLeft()
	}
}
