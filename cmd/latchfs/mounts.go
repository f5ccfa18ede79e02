package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"latchfs/fs/mounts"
)

// fsType is the type of our mounts in /proc/self/mountinfo; the source is the
// data directory.
const fsType = mounts.FSType

// errNotMounted says that nothing at all is mounted at a path.
var errNotMounted = errors.New("not mounted")

// errNoMount says that there is no mount that the user may enter.
var errNoMount = errors.New("no latchfs mount")

// isBarred reports whether an error says that the user may not enter a mount. The kernel lets
// nobody into another user's own mount, not even root (mount.fuse3(8), allow_other), and a
// directory above a mount may be closed to the user. Nothing there is the user's, so that who
// asks about all mounts does not mean it.
func isBarred(err error) bool { return errors.Is(err, unix.EACCES) }

// latchfsMounts lists our mounts, oldest first.
func latchfsMounts() ([]*mountinfo.Info, error) {
	return mountinfo.GetMounts(mountinfo.FSTypeFilter(fsType))
}

// mountAt finds our mount at exactly this path. Nothing on a mount is touched
// unless the path as given is not one, because a dead or hung mount answers
// badly or never.
func mountAt(path string) (*mountinfo.Info, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	m := topmost(mounts, abs)
	if m == nil {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			m = topmost(mounts, filepath.Join(dir, filepath.Base(abs)))
		}
	}
	if m == nil {
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			m = topmost(mounts, real)
		}
	}
	switch {
	case m == nil:
		return nil, fmt.Errorf("%s: %w", path, errNotMounted)
	case m.FSType != fsType:
		return nil, fmt.Errorf("%s is a mount of type %s, not of latchfs", path, m.FSType)
	}
	return m, nil
}

// mountAround finds our mount that a path is in.
func mountAround(path string) (*mountinfo.Info, error) {
	p, err := machine().locate(path)
	return p.mount, err
}

// topmost is the mount that hides all others at a mount point: the last one in
// the kernel's list.
func topmost(mounts []*mountinfo.Info, mountpoint string) *mountinfo.Info {
	var top *mountinfo.Info
	for _, m := range mounts {
		if m.Mountpoint == mountpoint {
			top = m
		}
	}
	return top
}

// answerTimeout bounds the wait for a daemon that hangs, or is stopped.
const answerTimeout = 10 * time.Second

// inTime is what ask returns, which touches the mount at path. What waits for a daemon that
// does not answer goes on waiting, until the program ends.
func inTime[T any](path string, ask func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := ask()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-time.After(answerTimeout):
		var none T
		return none, fmt.Errorf("%s: no answer within %v: latchfs hangs there, or is stopped", path, answerTimeout)
	}
}

// isDead tells whether the daemon behind a mount is gone: the kernel answers for
// it then, at once. A mount that answers late is not dead.
func isDead(m *mountinfo.Info) bool {
	answer := make(chan error, 1)
	go func() {
		var st unix.Statfs_t
		answer <- unix.Statfs(m.Mountpoint, &st)
	}()
	select {
	case err := <-answer:
		return mounts.IsDead(err)
	case <-time.After(time.Second):
		return false
	}
}
