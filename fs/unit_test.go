package fs

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

// dirent64 encodes one linux_dirent64 record.
func dirent64(ino uint64, kind byte, name string) []byte {
	b := make([]byte, (19+len(name)+1+7)&^7)
	binary.NativeEndian.PutUint64(b, ino)
	binary.NativeEndian.PutUint16(b[16:], uint16(len(b)))
	b[18] = kind
	copy(b[19:], name)
	return b
}

func TestParseDirents(t *testing.T) {
	buf := slices.Concat(
		dirent64(7, unix.DT_REG, "plain"),
		dirent64(8, unix.DT_REG, ".latchfs-0123"),
		dirent64(9, unix.DT_DIR, ".latchfs"),
		dirent64(10, unix.DT_LNK, "\xff\n"),
	)
	got := parseDirents(nil, buf, visible)
	want := []dirEntry{{name: "plain", ino: 7, kind: unix.S_IFREG}, {name: "\xff\n", ino: 10, kind: unix.S_IFLNK}}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func FuzzParseDirents(f *testing.F) {
	f.Add(slices.Concat(dirent64(1, unix.DT_REG, "a"), dirent64(2, unix.DT_DIR, "bb")))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range parseDirents(nil, b, visible) {
			if slices.Contains([]byte(e.name), 0) {
				t.Fatalf("name %q holds a NUL", e.name)
			}
		}
	})
}

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
