package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a mount refuses although a plain directory would not: reserved names,
// every write of a read-only mount, and ways out of the data directory.

// nameOps is every operation that can bring a name into being, and those that
// would show that it exists.
func nameOps(m *Mount, name string) map[string]error {
	at := m.Path(name)
	witness := m.Path("witness")
	listed := errors.New("not listed")
	if entries, err := os.ReadDir(filepath.Dir(at)); err != nil {
		listed = err
	} else if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == filepath.Base(at) }) {
		listed = nil
	}
	return map[string]error{
		"list":    listed,
		"stat":    unix.Access(at, unix.F_OK),
		"read":    closing(unix.Open(at, unix.O_RDONLY, 0)),
		"path":    closing(unix.Open(at, unix.O_PATH, 0)),
		"write":   closing(unix.Open(at, unix.O_WRONLY, 0)),
		"create":  closing(unix.Open(at, unix.O_WRONLY|unix.O_CREAT, 0o644)),
		"excl":    closing(unix.Open(at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)),
		"mkdir":   unix.Mkdir(at, 0o755),
		"mknod":   unix.Mknod(at, unix.S_IFREG|0o644, 0),
		"mkfifo":  unix.Mkfifo(at, 0o644),
		"symlink": unix.Symlink("witness", at),
		"link":    unix.Link(witness, at),
		"rename":  unix.Rename(witness, at),
		"from":    unix.Rename(at, m.Path("stolen")),
		"swap":    unix.Renameat2(unix.AT_FDCWD, witness, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE),
		"unlink":  unix.Unlink(at),
		"rmdir":   unix.Rmdir(at),
		"chmod":   unix.Chmod(at, 0o777),
		"utimens": unix.Utimes(at, make([]unix.Timeval, 2)),
		"xattr":   unix.Lsetxattr(at, "user.x", nil, 0),
	}
}

// TestReservedNames: what latchfs keeps beside the data is not there for anybody,
// and nobody can put something in its place.
func TestReservedNames(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	if err := os.Mkdir(m.Path("sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".latchfs", ".latchfs-x", ".latchfs-0123456789abcdef", "sub/.latchfs", "sub/.latchfs-x", ".latchfs/journal"} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			m.WriteFile("witness", "still here")
			for op, err := range nameOps(m, name) {
				if err == nil {
					t.Errorf("%s of %s succeeds", op, name)
				}
				if reading := []string{"stat", "read", "path"}; slices.Contains(reading, op) && !errors.Is(err, unix.ENOENT) {
					t.Errorf("%s of %s: %v, want ENOENT", op, name, err)
				}
			}
			if got := m.ReadFile("witness"); got != "still here" {
				t.Errorf("the witness holds %q", got)
			}
		})
	}
	for _, dir := range []string{m.Dir, m.Path("sub")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".latchfs") {
				t.Errorf("%s is listed in %s", e.Name(), dir)
			}
		}
	}
	// A directory that holds nothing but our own is empty to its users.
	if err := unix.Rmdir(m.Path("sub")); err != nil {
		t.Errorf("rmdir: %v", err)
	}
	info, err := os.Stat(filepath.Join(m.Data, ".latchfs"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory: %v %v, want mode 0700", info, err)
	}
}

// TestReservedLikeNames: names that only look reserved are ordinary.
func TestReservedLikeNames(t *testing.T) {
	m := mount(t)
	for _, name := range []string{".latch", ".latchf", ".latchfsx", ".Latchfs", "latchfs", ".lock", ".locksx", "sub/.locks"} {
		if err := os.MkdirAll(filepath.Dir(m.Path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		m.WriteFile(name, name)
		if got := m.ReadFile(name); got != name {
			t.Errorf("%s holds %q", name, got)
		}
		if b, err := os.ReadFile(filepath.Join(m.Data, name)); string(b) != name {
			t.Errorf("under the mount %s holds %q, %v", name, b, err)
		}
		if err := os.Remove(m.Path(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLocksDirIsNotData: the virtual directory cannot be removed, replaced or filled.
func TestLocksDirIsNotData(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("witness", "still here")
	for _, name := range []string{".locks", ".locks/new", ".locks/status", ".locks/held/new"} {
		for op, err := range nameOps(m, name) {
			harmless := slices.Contains([]string{"stat", "read", "path", "list"}, op)
			if err == nil && !harmless {
				t.Errorf("%s of %s succeeds", op, name)
			}
		}
	}
	if got := m.ReadFile("witness"); got != "still here" {
		t.Errorf("the witness holds %q", got)
	}
	if got := m.Locks("README"); got == "" {
		t.Error(".locks/README is empty")
	}
	if _, err := os.Lstat(filepath.Join(m.Data, ".locks")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf(".locks in the data directory: %v", err)
	}
	if out, err := exec.Command("rm", "-rf", m.Dir+"/.locks").CombinedOutput(); err == nil {
		t.Errorf("rm -rf of .locks succeeds: %s", out)
	}
}

// TestReadOnlyMount: everything is readable, nothing is writable, and nothing
// changes underneath.
func TestReadOnlyMount(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withArgs("--read-only"), withSeed(func(data string) error {
		if err := os.WriteFile(filepath.Join(data, "witness"), []byte("still here"), 0o644); err != nil {
			return err
		}
		return os.Mkdir(filepath.Join(data, "dir"), 0o755)
	}))
	before := treeOf(t, filepath.Join(m.Data, "dir"))
	for _, name := range []string{"witness", "dir", "new", "dir/new"} {
		for op, err := range nameOps(m, name) {
			if slices.Contains([]string{"list", "stat", "read", "path"}, op) {
				continue
			}
			// The kernel may find something else wrong before it looks at the mount's flags.
			want := []error{unix.EROFS, unix.ENOENT, unix.EEXIST, unix.EISDIR}
			if name == "witness" && slices.Contains([]string{"write", "chmod", "utimens", "xattr", "unlink", "from"}, op) {
				want = want[:1]
			}
			if !slices.ContainsFunc(want, func(e error) bool { return errors.Is(err, e) }) {
				t.Errorf("%s of %s: %v, want one of %v", op, name, err, want)
			}
		}
	}
	for _, command := range []string{"audit", "history", "rejected"} {
		args := []string{command}
		if command == "rejected" {
			args = append(args, "list")
		}
		if o := m.Latchfs(t, args...); o.Code != 0 || o.Stdout+o.Stderr != "" {
			t.Errorf("latchfs %q: %+v", args, o)
		}
	}
	if err := unix.Truncate(m.Path("witness"), 0); !errors.Is(err, unix.EROFS) {
		t.Errorf("truncate: %v, want EROFS", err)
	}
	if got := m.ReadFile("witness"); got != "still here" {
		t.Errorf("the witness holds %q", got)
	}
	if after := treeOf(t, filepath.Join(m.Data, "dir")); !slices.Equal(before, after) {
		t.Errorf("changed underneath: %q, was %q", after, before)
	}
}
