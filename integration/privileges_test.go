package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// keptCapabilities are what root's daemon may keep, as a bit mask.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
	1<<unix.CAP_FSETID | 1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_LINUX_IMMUTABLE |
	1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_MKNOD | 1<<unix.CAP_SETFCAP

// Root's daemon keeps the capabilities that it needs, in every thread, and none comes
// back: that of the binary that is installed, for with cgo, as the race detector needs it, a
// program cannot reach all of its threads.
func TestDaemonsCapabilities(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	for _, flag := range []string{"--no-passthrough=false", "--no-passthrough"} {
		if o := finish(t, exec.Command(bench.binary, "mount", flag, data, mnt)); o.Code != 0 {
			t.Fatalf("%+v", o)
		}
		if err := os.WriteFile(filepath.Join(mnt, "f"), []byte("content"), 0o644); err != nil { // some work, so that there are threads
			t.Fatal(err)
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", daemonOf(t, data)))
		if err != nil || len(threads) < 2 {
			t.Fatalf("threads %q, %v", threads, err)
		}
		for _, thread := range threads {
			checkPrivileges(t, thread)
		}
		if o := latchfs(t, "umount", mnt); o.Code != 0 {
			t.Fatalf("%+v", o)
		}
	}
}

// checkPrivileges reads a thread's status.
func checkPrivileges(t *testing.T, thread string) {
	t.Helper()
	status, err := os.ReadFile(thread)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return // it has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb":
			var caps uint64
			if _, err := fmt.Sscanf(value, "%x", &caps); err != nil || caps&^keptCapabilities != 0 {
				t.Errorf("%s of %s is %s, %v", name, thread, value, err)
			}
			seen++
		case "NoNewPrivs":
			if value != "1" {
				t.Errorf("%s can gain privileges", thread)
			}
			seen++
		}
	}
	if seen != 6 {
		t.Errorf("%s says %d of 6 things", thread, seen)
	}
}
