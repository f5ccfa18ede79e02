package integration

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// statLine renders the attributes that do not depend on the machine's history:
// no inode and device numbers, no times, no size of a directory.
func statLine(st *unix.Stat_t) string {
	line := fmt.Sprintf("%s %04o nlink=%d uid=%d gid=%d", fileType(st.Mode), st.Mode&0o7777, st.Nlink, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK:
		return fmt.Sprintf("%s size=%d", line, st.Size)
	case unix.S_IFCHR, unix.S_IFBLK:
		return fmt.Sprintf("%s rdev=%d:%d", line, unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return line
}

// fileType names the type bits of a mode.
func fileType(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFCHR:
		return "char"
	case unix.S_IFBLK:
		return "block"
	}
	return fmt.Sprintf("type %o", mode)
}

// brief shows short contents and sums up long ones.
func brief(b []byte) string {
	if len(b) <= 64 {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%d bytes, sha256 %x", len(b), sha256.Sum256(b))
}

// treeOf describes everything below dir, one line for each name: attributes,
// link target or contents. Names that latchfs reserves for itself appear like
// any other, so a shadow left behind is a difference.
func treeOf(t *testing.T, dir string) []string {
	t.Helper()
	return treeWith(t, dir, func(*unix.Stat_t) string { return "" })
}

// treeWith is treeOf with something more about each name.
func treeWith(t *testing.T, dir string, more func(*unix.Stat_t) string) []string {
	t.Helper()
	lines, err := readTree(dir, more)
	if err != nil {
		t.Fatalf("reading the tree %s: %v", dir, err)
	}
	return lines
}

// readTree is treeWith for whoever cannot fail the test from where he is.
func readTree(dir string, more func(*unix.Stat_t) string) ([]string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, os.ErrPermission) {
			lines[len(lines)-1] += " may not be listed"
			return nil
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		rel, _ := filepath.Rel(dir, path)
		content, err := contentLine(path, &st)
		lines = append(lines, fmt.Sprintf("%q %s%s%s", rel, statLine(&st), more(&st), content))
		return err
	})
	return lines, err
}

// contentLine describes what a file holds or a link leads to.
func contentLine(path string, st *unix.Stat_t) (string, error) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		return " -> " + target, err
	case unix.S_IFREG:
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrPermission) {
			return " may not be read", nil
		}
		return " " + brief(b), err
	}
	return "", nil
}
