package sys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// An errno is found in whatever tells more of it; an error without one has failed all the same.
func TestErrno(t *testing.T) {
	for _, c := range []struct {
		err  error
		want unix.Errno
	}{
		{nil, 0},
		{unix.ENOSPC, unix.ENOSPC},
		{fmt.Errorf("write: %w", os.NewSyscallError("pwrite", unix.EDQUOT)), unix.EDQUOT},
		{errors.Join(errors.New("no errno"), unix.EROFS), unix.EROFS},
		{errors.New("no errno"), unix.EIO},
	} {
		if got := Errno(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// The path leads to the file of a descriptor that was opened with O_PATH, whatever its name is now.
func TestSelf(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(Self(fd)); err != nil || string(got) != "text" {
		t.Errorf("%s leads to %q, %v", Self(fd), got, err)
	}
}
