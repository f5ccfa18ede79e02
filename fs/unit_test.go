package fs

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

func TestWithoutTrusted(t *testing.T) {
	list := []byte("user.a\x00trusted.b\x00security.c\x00")
	if got := string(withoutTrusted(list)); got != "user.a\x00security.c\x00" {
		t.Fatalf("got %q", got)
	}
}

// Every cause of a refused lock has the errno that DESIGN §5 names.
func TestLockErrno(t *testing.T) {
	for _, c := range []struct {
		err  error
		want unix.Errno
	}{
		{&denied.Error{Cause: denied.ErrTimeout}, unix.EBUSY},
		{&denied.Error{Cause: denied.ErrShutdown}, unix.EBUSY},
		{&denied.Error{Cause: denied.ErrInterrupted}, unix.EINTR},
		{&denied.Error{Cause: denied.ErrNotNow}, unix.EBUSY},
		{&lockmgr.ConflictError{}, unix.EAGAIN},
		{&lockmgr.DeadlockError{}, unix.EDEADLK},
		{errors.New("anything else"), unix.EBUSY},
	} {
		if got := lockErrno(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	for name, o := range map[string]Options{
		"no directory":       {},
		"a path":             {Dir: "/x", LocksDir: "a/b"},
		"dot dot":            {Dir: "/x", LocksDir: ".."},
		"a reserved name":    {Dir: "/x", LocksDir: ".latchfs"},
		"a negative timeout": {Dir: "/x", LockTimeout: -1},
	} {
		if err := o.Validate(); !errors.Is(err, ErrBadOption) {
			t.Errorf("%s: %v, want ErrBadOption", name, err)
		}
	}
	o := Options{Dir: "/x"}
	if err := o.Validate(); err != nil || o.LocksDir != ".locks" || o.LockTimeout != 30*time.Second || o.Mountpoint != "/x" {
		t.Fatalf("defaults: %v %+v", err, o)
	}
}
