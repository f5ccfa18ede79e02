package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// After its log was rotated away, the last words of a daemon in the background are in the new
// one: the old one may be compressed or removed by then.
func TestLastWordsAfterARotation(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	log := filepath.Join(t.TempDir(), "log")
	if o := latchfs(t, "mount", "--log-file", log, data, mnt); o.Code != 0 {
		t.Fatalf("mount: %+v", o)
	}
	t.Cleanup(func() {
		if o := latchfs(t, "umount", mnt); o.Code != 0 {
			t.Errorf("umount: %+v", o)
		}
	})
	pid := daemonOf(t, data)
	for _, rotated := range []string{log + ".1", log + ".2"} {
		if err := os.Rename(log, rotated); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		within(t, patience, "the log is there anew", func() bool { _, err := os.Stat(log); return err == nil })
	}
	// The file is there a moment before the daemon uses it, and SIGQUIT does not wait for that.
	within(t, patience, "nothing goes to the old logs", func() bool {
		return !slices.ContainsFunc(openFilesOf(pid), func(file string) bool { return strings.HasPrefix(file, log+".") })
	})
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the daemon is gone", func() bool { return daemonOf(t, data) == 0 })
	b, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(b), "SIGQUIT") || !strings.Contains(string(b), "goroutine") {
		t.Errorf("the log has %q, %v", b, err)
	}
}
