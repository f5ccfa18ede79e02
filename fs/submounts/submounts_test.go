package submounts

import (
	"testing"

	"golang.org/x/sys/unix"
)

// mount is one that a descriptor was opened through.
type mount struct {
	number uint64 // 0: the kernel does not tell
	has    int64
}

// mounts has those of a test, by descriptor.
type mounts map[int]mount

func (m mounts) mount(fd int) (uint64, bool) { return m[fd].number, m[fd].number != 0 }

func (m mounts) flags(fd int) (int64, bool) {
	at, ok := m[fd]
	return at.has, ok
}

// The descriptors of the tests.
const (
	data       = iota + 3 // the data directory: noexec
	same                  // the same mount, which was remounted since
	strict                // nosuid, nodev, noexec
	plain                 // no flags
	unnumbered            // nodev, and the kernel does not tell its number
	closed                // nobody can be asked
)

func newTable(privileged bool) *Table {
	t := &Table{look: mounts{
		data: {1, unix.ST_NOEXEC}, same: {1, unix.ST_NOSUID}, strict: {2, unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC},
		plain: {3, 0}, unnumbered: {0, unix.ST_NODEV},
	}}
	t.Note(data, privileged)
	return t
}

// A mount below the data directory forbids what its flags say and ours do not.
func TestForbids(t *testing.T) {
	for _, c := range []struct {
		of                    string
		table                 *Table
		fd                    int
		nosuid, nodev, noexec bool
	}{
		{"the data directory", newTable(true), data, false, false, false},
		{"its mount", newTable(true), same, false, false, false},
		{"a stricter one", newTable(true), strict, true, true, false},
		{"a plain one", newTable(true), plain, false, false, false},
		{"one without a number", newTable(true), unnumbered, false, true, false},
		{"a closed one", newTable(true), closed, true, true, false},
		{"a stricter one, of a user's mount", newTable(false), strict, false, false, false},
		{"a closed one, of a user's mount", newTable(false), closed, false, false, false},
		{"a stricter one, of a mount that is not known", &Table{look: newTable(true).look}, strict, true, true, true},
		{"one without a number, of a mount that is not known", &Table{look: newTable(true).look}, unnumbered, false, true, false},
	} {
		for flag, want := range map[int64]bool{unix.ST_NOSUID: c.nosuid, unix.ST_NODEV: c.nodev, unix.ST_NOEXEC: c.noexec} {
			if got := c.table.Forbids(c.fd, flag); got != want {
				t.Errorf("%s, %#x: %v", c.of, flag, got)
			}
		}
	}
}

// The kernel tells the number and the flags of a mount, also through O_PATH.
func TestKernel(t *testing.T) {
	open := func(path string) int {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	root, proc := open("/"), open("/proc")
	var table Table
	a, known := table.at().mount(root)
	b, too := table.at().mount(proc)
	if !known || !too || a == b {
		t.Errorf("/ is on %d (%v), /proc on %d (%v)", a, known, b, too)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(proc, &st); err != nil {
		t.Fatal(err)
	}
	if flags, ok := table.at().flags(proc); !ok || flags != int64(st.Flags) || flags == 0 {
		t.Errorf("%#x, %v", flags, ok)
	}
	if _, ok := table.at().mount(-1); ok {
		t.Error("a closed descriptor has a mount")
	}
	if _, ok := table.at().flags(-1); ok {
		t.Error("a closed descriptor has flags")
	}
}

func TestMode(t *testing.T) {
	for _, c := range []struct {
		fd         int
		mode, want uint32
		rdev       uint32
		asks       bool
	}{
		{strict, unix.S_IFREG | 0o6755, unix.S_IFREG | 0o755, 7, true},
		{strict, unix.S_IFREG | 0o4755, unix.S_IFREG | 0o755, 7, true},
		{strict, unix.S_IFREG | 0o2755, unix.S_IFREG | 0o755, 7, true},
		{strict, unix.S_IFREG | 0o1755, unix.S_IFREG | 0o1755, 7, false},
		{strict, unix.S_IFDIR | 0o2755, unix.S_IFDIR | 0o2755, 7, false}, // its group is inherited
		{strict, unix.S_IFCHR | 0o666, unix.S_IFCHR, 0, true},
		{strict, unix.S_IFBLK | 0o666, unix.S_IFBLK, 0, true},
		{strict, unix.S_IFIFO | 0o666, unix.S_IFIFO | 0o666, 7, false},
		{plain, unix.S_IFREG | 0o6755, unix.S_IFREG | 0o6755, 7, true},
		{plain, unix.S_IFCHR | 0o666, unix.S_IFCHR | 0o666, 7, true},
		{unnumbered, unix.S_IFREG | 0o6755, unix.S_IFREG | 0o6755, 7, true},
		{unnumbered, unix.S_IFBLK | 0o666, unix.S_IFBLK, 0, true},
	} {
		asked := false
		mode, rdev := newTable(true).Mode(&unix.Stat_t{Mode: c.mode, Rdev: 7}, func() int {
			asked = true
			return c.fd
		})
		if mode != c.want || rdev != c.rdev || asked != c.asks {
			t.Errorf("%d: %#o: %#o, device %d, asked %v", c.fd, c.mode, mode, rdev, asked)
		}
	}
}

// Inodes of different devices have different numbers, and each keeps its own.
func TestNumber(t *testing.T) {
	var table Table
	first, second := table.Number(9, 5), table.Number(7, 5)
	if first != 5^1<<48 || second != 5^2<<48 {
		t.Errorf("%#x and %#x", first, second)
	}
	if table.Number(9, 5) != first || table.Number(7, 6) != 6^2<<48 {
		t.Error("a device got another number")
	}
}
