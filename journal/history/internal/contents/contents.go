// Package contents is the directory of what is kept: the content of an id lies in
// history/XX/ID, where XX are the first two digits of the id. Whether a content is kept its file
// says and nothing else; what it is the log knows.
package contents

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/history/internal/record"
)

// NewPrefix begins the name of a content that is being made; worthless after a crash.
const NewPrefix = ".new-"

// Dir is the history's directory, which whoever has opened it closes.
type Dir struct{ *os.File }

// DirOf is the directory of a content inside the history's.
func DirOf(id string) string { return id[:2] }

// IsDir reports whether an entry of the history's directory has the name of one with contents.
func IsDir(name string) bool { return len(name) == 2 && isHex(name) }

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsName reports whether a file with that name can be a content in a directory of contents: the
// name is an id, and contents with such ids lie there.
func IsName(dir, id string) bool { return record.IsContentID(id) && DirOf(id) == dir }

func (d Dir) fd() int { return int(d.Fd()) }

func at(id string) string { return DirOf(id) + "/" + id }

// List are the ids of the contents that there are files of.
func (d Dir) List() (map[record.ID]bool, error) {
	ids := map[record.ID]bool{}
	return ids, d.Each(func(_ *os.File, dir string, names []string) {
		for _, name := range names {
			if IsName(dir, name) {
				ids[record.IDOf(name)] = true
			}
		}
	})
}

// Each calls do for each directory of contents.
func (d Dir) Each(do func(open *os.File, dir string, names []string)) error {
	if _, err := d.Seek(0, 0); err != nil {
		return err
	}
	dirs, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if !IsDir(dir) {
			continue
		}
		open, err := d.Open(dir)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue
		}
		if err != nil {
			return err
		}
		names, err := open.Readdirnames(-1)
		if err == nil {
			do(open, dir, names)
		}
		open.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Open opens a directory of contents. The error is ENOTDIR or ELOOP if it is none.
func (d Dir) Open(dir string) (*os.File, error) {
	fd, err := unix.Openat(d.fd(), dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// Stat is the stat(2) of a content's file.
func (d Dir) Stat(id string, st *unix.Stat_t) error {
	return unix.Fstatat(d.fd(), at(id), st, unix.AT_SYMLINK_NOFOLLOW)
}

// HasACL reports whether a content has an ACL; in doubt it has.
func (d Dir) HasACL(id string) bool {
	_, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", d.fd(), at(id)), "system.posix_acl_access", nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}

// Content opens a content for reading. It has the mode of the file that it was, which an ordinary
// user's daemon may write and not read, perhaps: the log has that mode, and nobody else uses the
// inode.
func (d Dir) Content(id string) (*os.File, error) {
	fd, err := d.content(at(id))
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(fd), id), nil
}

func (d Dir) content(name string) (int, error) {
	const flags = unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, barred := unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if barred != unix.EACCES {
		return fd, barred
	}
	path, err := unix.Openat(d.fd(), name, unix.O_PATH|flags, 0)
	if err != nil {
		return -1, barred
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if unix.Fstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 ||
		unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", path), st.Mode&0o7777|0o400) != nil {
		return -1, barred
	}
	return unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_NONBLOCK|flags, 0)
}

// Remove takes the file of a content away; it is no error if there is none.
func (d Dir) Remove(id string) error {
	err := unix.Unlinkat(d.fd(), at(id), 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// Erased makes sure that the file of a content is gone for good.
func (d Dir) Erased(id string) error {
	var st unix.Stat_t
	if err := d.Stat(id, &st); err == nil {
		return fmt.Errorf("the content %s cannot be removed", id)
	}
	dir, err := d.Open(DirOf(id))
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.NewSyscallError("fsync", unix.Fsync(int(dir.Fd())))
}
