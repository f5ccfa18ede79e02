package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// content is what put writes: the bytes of a file below .locks.
type content struct {
	file *os.File
	// mode and owner are those that the file gets; nil: as it has them, or as
	// new files do.
	mode     *uint32
	uid, gid *int

	// since is when the file is known to have been there last; zero: the history knows.
	since time.Time

	notOurs bool     // the mode could not be given, for the file is another's
	closed  []string // directories that were made for us alone
}

// put writes a file of the mount as every program does: open, truncate, write,
// close; so it is locked and committed as everything else, and the error of the
// close is part of the answer. Directories on the way are made. No symbolic link is
// followed: a path in the records is the file's own.
func (v *view) put(p string, c *content, how int) error {
	if err := c.readable(); err != nil {
		return err
	}
	dir, err := v.openOrMakeParent(p, c)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is %s now: remove it or move it away first", v.file(p), kindOf(st.Mode))
	}
	out, err := openAt(dir, path.Base(p), unix.O_WRONLY|unix.O_CREAT|how, c.openMode())
	if err != nil {
		return &os.PathError{Op: "open", Path: v.file(p), Err: err}
	}
	return c.writeTo(os.NewFile(uintptr(out), v.file(p)))
}

// kindOf says what has a name, for people.
func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFREG:
		return "a file"
	}
	return "a special file"
}

// How put opens the file.
const (
	replacing = unix.O_TRUNC
	appending = unix.O_APPEND
)

// has reports whether there is something at a path, which may have any length.
func (v *view) has(p string) bool {
	dir, err := v.openParent(p, false)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	return unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT
}

// leadsToFile reports whether a path may be that of a file below the mount's root. It need not
// be UTF-8, as it has to be for io/fs.
func leadsToFile(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// openAt opens a name in a directory that is not a symbolic link.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// readable reads it once to the end: what cannot be read is found out before
// there is a file that a close would commit half written.
func (c *content) readable() error {
	if _, err := io.Copy(io.Discard, c.file); err != nil {
		return err
	}
	_, err := c.file.Seek(0, io.SeekStart)
	return err
}

func (c *content) openMode() uint32 {
	if c.mode == nil {
		return 0o666
	}
	return *c.mode & 0o777
}

// writeTo writes, and closes.
func (c *content) writeTo(out *os.File) error {
	_, err := io.Copy(out, c.file)
	var read *os.PathError
	if errors.As(err, &read) && read.Path == c.file.Name() {
		// The close would commit half of it. Who is killed has not finished.
		fmt.Fprintf(os.Stderr, "latchfs: %v; %s stays what it was\n", err, out.Name())
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	if err == nil {
		err = c.giveMode(out)
	}
	return errors.Join(err, out.Close())
}

func (c *content) giveMode(out *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(out.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if c.uid != nil && os.Geteuid() == 0 && (int(st.Uid) != *c.uid || int(st.Gid) != *c.gid) {
		if err := out.Chown(*c.uid, *c.gid); err != nil {
			return err
		}
		st.Mode &^= unix.S_ISUID | unix.S_ISGID // as chown(2) does
	}
	if c.mode == nil || st.Mode&0o7777 == *c.mode {
		return nil
	}
	err := unix.Fchmod(int(out.Fd()), *c.mode)
	if err == unix.EPERM {
		c.notOurs = true
		return nil
	}
	return os.NewSyscallError("fchmod", err)
}
