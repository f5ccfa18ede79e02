package fs

import (
	"context"
	"os"
	"testing"
)

// MountForTest mounts a filesystem, which tests inside the package look into. It is set by
// an outer test, because package face, which mounts, knows this one.
var MountForTest func(t *testing.T, o Options) (*FS, MountedForTest)

// MountedForTest is a mount; *face.Mount is one.
type MountedForTest interface {
	Shutdown(ctx context.Context) error
	Wait() error
}

// mounted mounts a filesystem; the test is skipped where that cannot be.
func mounted(t *testing.T, o Options) (*FS, MountedForTest) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts without a helper")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip(err)
	}
	return MountForTest(t, o)
}
