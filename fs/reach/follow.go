package reach

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/sys"
)

// maxLinks is how many symbolic links the kernel follows on one way (path_resolution(7)).
const maxLinks = 40

// Follow is the path to which a program comes that has given a path to the kernel: without
// symbolic links, which are followed. A path that does not begin with a slash begins at the
// path dir; others, and symbolic links, lead below the root if they begin with at, where the
// program sees it. It is not ok if the way leads outside or to nothing, or cannot be told.
func (r Root) Follow(at, dir, given string) (to string, ok bool) {
	to, links := dir, 0
	for rest := []string{given}; len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		if path.IsAbs(next) {
			if next, ok = below(at, next); !ok {
				return "", false
			}
			to = ""
		}
		name, more, split := strings.Cut(next, "/")
		if split {
			rest = append([]string{strings.TrimLeft(more, "/")}, rest...)
		}
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && to == "":
			return "", false
		case name == "..":
			to = Dir(to)
			continue
		}
		is := path.Join(to, name)
		link, e := r.readLink(is)
		switch links++; {
		case e == unix.EINVAL:
			to, links = is, links-1
		case e != 0 || links > maxLinks:
			return "", false
		default:
			rest = append([]string{link}, rest...)
		}
	}
	return to, true
}

// readLink reads the symbolic link at a path; EINVAL if that has something else.
func (r Root) readLink(p string) (string, unix.Errno) {
	fd, e := r.Open(p, unix.O_PATH)
	if e != 0 {
		return "", e
	}
	defer unix.Close(fd)
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err == unix.ENOENT { // readlink(2): of a descriptor that is not one of a symbolic link
		err = unix.EINVAL
	}
	return string(b[:max(n, 0)]), sys.Errno(err)
}

// below is the part of an absolute path that is below the directory at.
func below(at, p string) (string, bool) {
	rest, ok := strings.CutPrefix(path.Clean("/"+at), "/")
	if !ok {
		return "", false
	}
	p = strings.TrimLeft(p, "/")
	if rest == "" {
		return p, true
	}
	p, ok = strings.CutPrefix(p, rest)
	if !ok || p != "" && p[0] != '/' {
		return "", false
	}
	return strings.TrimLeft(p, "/"), true
}
