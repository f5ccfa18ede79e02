package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links a path may lead through, as for the kernel.
const maxLinks = 40

// followLinks resolves the symbolic links in an absolute path. A link that neither
// root nor our own user has made leads root wherever its owner likes: it is refused.
func followLinks(path string) (string, error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		var st unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return "", &os.PathError{Op: "lstat", Path: next, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &os.PathError{Op: "lstat", Path: path, Err: unix.ELOOP}
		}
		if os.Geteuid() == 0 && st.Uid != 0 {
			return "", fmt.Errorf("%w: %s is a symbolic link of user %d, who can let it lead anywhere: name the directory itself", ErrBadOption, next, st.Uid)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// openResolved opens a directory by a path in which there are no links any more.
func openResolved(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}
