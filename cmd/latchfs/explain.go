package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"latchfs/fs/mounts"
	"latchfs/fs/printable"
)

// explained says what a failure has to do with the mount that it came from, and what can be
// done; "" if nothing is to be said. Nothing on the mount is touched, for it may be dead.
func (s system) explained(err error) string {
	dead := mounts.IsDead(err)
	if !dead && !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	m := s.mountOfError(err)
	switch {
	case dead && m == nil:
		return "The latchfs of that mount has ended: 'latchfs mount' replaces it, 'latchfs umount' removes it."
	case dead:
		return "The latchfs of that mount has ended: 'latchfs mount' replaces it, and this removes it: latchfs umount " + printable.Word(m.Mountpoint)
	case m == nil:
		return ""
	}
	if owner, private := privateTo(m); private && owner != s.user {
		return "The mount on " + printable.Line(m.Mountpoint) + " is there for " + userName(owner) + " alone, and not even for root: that user can do it."
	}
	return ""
}

// mountOfError is the mount of ours that the file of an error is in; nil if there is none.
func (s system) mountOfError(err error) *mountinfo.Info {
	var at *os.PathError
	if !errors.As(err, &at) {
		return nil
	}
	file, err := filepath.Abs(at.Path)
	if err != nil {
		return nil
	}
	m, err := s.mountOf(file)
	if err != nil || m == nil || m.FSType != fsType {
		return nil
	}
	return m
}

// ownerOf is the user who has mounted m.
func ownerOf(m *mountinfo.Info) (uid int, known bool) {
	for option := range strings.SplitSeq(m.VFSOptions, ",") {
		if id, ok := strings.CutPrefix(option, "user_id="); ok {
			uid, err := strconv.Atoi(id)
			return uid, err == nil
		}
	}
	return 0, false
}

// privateTo tells whether the kernel lets nobody into a mount but the user who has made it.
func privateTo(m *mountinfo.Info) (owner int, private bool) {
	owner, known := ownerOf(m)
	return owner, known && !strings.Contains(","+m.VFSOptions+",", ",allow_other,")
}
