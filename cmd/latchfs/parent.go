package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

// openParent opens the directory that a path is in, and makes what is missing of it
// if it shall. No symbolic link is followed on the way.
func (v *view) openParent(p string, make bool) (int, error) {
	if make {
		return v.openOrMakeParent(p, &content{})
	}
	return v.walkToParent(p, nil)
}

// openOrMakeParent makes what is missing of the directory that the content c is to be put
// into.
func (v *view) openOrMakeParent(p string, c *content) (int, error) {
	var was map[string]*auditEvent // asked for only if something is missing
	return v.walkToParent(p, func(dir int, d string) (int, error) {
		if was == nil {
			var err error
			if was, err = v.removedAbove(p, c.since); err != nil {
				return -1, err
			}
		}
		fd, known, err := makeAgain(dir, path.Base(d), was[d])
		if err == nil && !known {
			c.closed = append(c.closed, d)
		}
		return fd, err
	})
}

// walkToParent opens the directory that a path is in. missing, if it is not nil, makes and
// opens a directory on the way that is not there.
func (v *view) walkToParent(p string, missing func(dir int, d string) (int, error)) (int, error) {
	dir, err := unix.Open(v.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: v.root, Err: err}
	}
	if !leadsToFile(p) {
		unix.Close(dir)
		return -1, fmt.Errorf("%q is no path of a file", p)
	}
	parts := strings.Split(p, "/")
	for i, part := range parts[:len(parts)-1] {
		next, err := openAt(dir, part, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err == unix.ENOENT && missing != nil {
			next, err = missing(dir, path.Join(parts[:i+1]...))
		}
		unix.Close(dir)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: v.file(path.Join(parts[:i+1]...)), Err: err}
		}
		dir = next
	}
	return dir, nil
}

// makeAgain makes a directory that is missing with the mode and owner that it had when it
// was removed. Where that is not known, or it was another user's, whom only root can give it
// to, it is ours alone: it may be what protected the files in it. Nobody gets in before it
// is what it shall be.
func makeAgain(dir int, name string, was *auditEvent) (fd int, known bool, err error) {
	const closed = 0o700
	if err := unix.Mkdirat(dir, name, closed); err != nil && err != unix.EEXIST {
		return -1, false, err
	} else if err == unix.EEXIST { // somebody else has made it just now
		fd, err = openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		return fd, true, err
	}
	if fd, err = openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil || was == nil || !isOurs(fd) {
		return fd, false, err
	}
	mode, err := strconv.ParseUint(was.str("mode"), 8, 12)
	uid := int(was.count("file_uid"))
	if err != nil || uid != os.Geteuid() && os.Geteuid() != 0 {
		return fd, false, nil
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(fd, uid, int(was.count("file_gid"))); err != nil {
			return fd, false, nil // root of a user namespace, say: it stays ours
		}
	}
	known = true
	var st unix.Stat_t
	if gid := int(was.count("file_gid")); unix.Fstat(fd, &st) != nil || int(st.Gid) != gid && unix.Fchown(fd, -1, gid) != nil {
		mode, known = mode&0o700, false // what its group might do, another one would get
	}
	if err := unix.Fchmod(fd, uint32(mode)); err != nil {
		unix.Close(fd)
		return -1, false, err
	}
	return fd, known, nil
}

// removedAbove finds in the audit trail how the directories above p were removed: of each
// the first removal since the file was there. What somebody else has made and removed there
// later says nothing about it. A file of which nothing is known counts as never having been
// there, and the last removal is meant.
func (v *view) removedAbove(p string, since time.Time) (map[string]*auditEvent, error) {
	if since.IsZero() {
		all, err := v.histories([]string{p})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if states := all[p]; len(states) > 0 {
			since = states[len(states)-1].Time
		}
	}
	was := map[string]*auditEvent{}
	err := v.eachTrailLine(func(line []byte) {
		if !bytes.Contains(line, []byte(eventDeleteDir)) {
			return
		}
		e, ok := parseEvent(line)
		if ok && e.Event == eventDeleteDir && strings.HasPrefix(p, e.real()+"/") && !e.Timestamp.Before(since) &&
			(was[e.real()] == nil || since.IsZero()) {
			was[e.real()] = e
		}
	})
	if err != nil {
		return nil, err
	}
	return was, nil
}

// tellClosed says which directories were made that only we may enter.
func (c *content) tellClosed(cmd *cobra.Command) {
	for _, d := range c.closed {
		warn(cmd, "the directory %s was made again, for its owner alone (mode 0700): how it was is not known, or not ours to give", printable.Line(d))
	}
}
