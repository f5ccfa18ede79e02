package integration

import (
	"os"
	"path/filepath"
	"strconv"
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
	within(t, patience, "nothing goes to the old logs", func() bool { return !leadsTo(t, pid, log+".1") && !leadsTo(t, pid, log+".2") })
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the daemon is gone", func() bool { return daemonOf(t, data) == 0 })
	b, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(b), "SIGQUIT") || !strings.Contains(string(b), "goroutine") {
		t.Errorf("the log has %q, %v", b, err)
	}
}

// leadsTo reports whether a descriptor of a process leads to the file.
func leadsTo(t *testing.T, pid int, file string) bool {
	t.Helper()
	fds, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == file {
			return true
		}
	}
	return false
}
