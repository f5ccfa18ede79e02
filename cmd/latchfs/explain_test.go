package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// A failure says whose mount it was that let nobody in, or that the mount is dead, with a
// command that can be typed anywhere.
func TestExplained(t *testing.T) {
	const another, ours = 4711, 1002
	private := fakeMountAt("/my m", 1)
	private.VFSOptions = "rw,user_id=4711,group_id=4711,default_permissions"
	shared := fakeMountAt("/shared", 2)
	shared.VFSOptions = private.VFSOptions + ",allow_other"
	sys := fakeSystem([]*mountinfo.Info{private, shared}, nil)
	at := func(path string, errno unix.Errno) error {
		return fmt.Errorf("why: %w", &os.PathError{Op: "lstat", Path: path, Err: errno})
	}
	for _, c := range []struct {
		user int
		err  error
		want string
	}{
		{ours, at("/my m", unix.EACCES), "The mount on /my m is there for uid 4711 alone, and not even for root: that user can do it."},
		{0, at("/my m/.locks/status", unix.EACCES), "The mount on /my m is there for uid 4711 alone, and not even for root: that user can do it."},
		{another, at("/my m/f", unix.EACCES), ""},
		{ours, at("/shared/f", unix.EACCES), ""},
		{ours, at("/elsewhere", unix.EACCES), ""},
		{ours, at("/my m", unix.ENOENT), ""},
		{ours, unix.EACCES, ""},
		{ours, at("/my m/f", unix.ENOTCONN), "The latchfs of that mount has ended: 'latchfs mount' replaces it, and this removes it: latchfs umount '/my m'"},
		{ours, unix.ENOTCONN, "The latchfs of that mount has ended: 'latchfs mount' replaces it, 'latchfs umount' removes it."},
	} {
		sys.user = c.user
		if got := sys.explained(c.err); got != c.want {
			t.Errorf("%v, to user %d: %q, want %q", c.err, c.user, got, c.want)
		}
	}
}
