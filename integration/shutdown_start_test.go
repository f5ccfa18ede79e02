package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// How a mount begins: what is refused, what is cleaned up, and when the command
// returns.

// latchfs runs the binary as root would from a shell; it must end by itself.
func latchfs(t *testing.T, args ...string) Outcome {
	t.Helper()
	return finish(t, exec.Command(bench.binary, args...))
}

// finish runs a command that must end within patience.
func finish(t *testing.T, cmd *exec.Cmd) Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%q keeps its caller's standard output or error", cmd.Args)
	}
	return Outcome{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// newDirs makes a data directory and a mount point, and takes away whatever is
// mounted there at the end.
func newDirs(t *testing.T) (data, mnt string) {
	t.Helper()
	needsLatchfs(t)
	needsRoot(t)
	home, err := os.MkdirTemp(bench.root, "start-")
	if err != nil {
		t.Fatal(err)
	}
	data, mnt = filepath.Join(home, "data"), filepath.Join(home, "mnt")
	for _, dir := range []string{data, mnt} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for unix.Unmount(dir, unix.MNT_DETACH) == nil {
			}
		})
	}
	return data, mnt
}

// daemonOf is the process that serves a data directory, 0 if there is none.
func daemonOf(t *testing.T, data string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, ".latchfs", "daemon.lock"))
	if err != nil {
		return 0
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		return 0
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || !strings.HasPrefix(string(comm), "latchfs") || isZombie(pid) {
		return 0
	}
	return pid
}

// isMounted tells whether anything is mounted at dir.
func isMounted(dir string) bool {
	found, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(dir))
	return err == nil && len(found) > 0
}

// TestBackground: the command returns when the mount answers, leaves a daemon
// that has let go of the terminal, and umount returns when that is gone.
func TestBackground(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	if o := latchfs(t, "mount", data, mnt); o.Code != 0 || o.Stdout+o.Stderr != "" {
		t.Fatalf("mount: %+v", o)
	}
	// No retry: it answers now or the command came back too early.
	if _, err := os.ReadFile(filepath.Join(mnt, ".locks", "README")); err != nil {
		t.Fatal(err)
	}
	pid := daemonOf(t, data)
	if pid == 0 {
		t.Fatal("no daemon")
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("the daemon's session is %d, %v; its pid is %d", sid, err, pid)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != "/" {
		t.Errorf("the daemon's working directory is %q, %v", cwd, err)
	}
	if err := os.WriteFile(filepath.Join(mnt, "f"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Fatalf("umount: %+v", o)
	}
	if isMounted(mnt) {
		t.Error("umount came back before the mount was gone")
	}
	// The daemon's lock goes a moment before its process.
	within(t, promised(time.Second), "the daemon is gone", func() bool { return daemonOf(t, data) == 0 })
	if b, err := os.ReadFile(filepath.Join(data, "f")); string(b) != "content" {
		t.Errorf("the data directory has %q, %v", b, err)
	}
}

// TestTwoDaemons: a second daemon on the same data is refused wherever it would
// mount, and the first goes on.
func TestTwoDaemons(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	_, second := newDirs(t)
	if o := latchfs(t, "mount", data, mnt); o.Code != 0 {
		t.Fatalf("mount: %+v", o)
	}
	pid := daemonOf(t, data)
	for _, at := range []string{second, mnt, data} {
		o := latchfs(t, "mount", data, at)
		if o.Code != 1 || o.Stderr == "" {
			t.Errorf("a second mount at %s: %+v", at, o)
		}
		t.Logf("%s", o.Stderr)
	}
	if said := latchfs(t, "mount", data, second).Stderr; !strings.Contains(said, fmt.Sprintf("(pid %d)\n", pid)) {
		t.Errorf("the refusal does not end with the daemon, %d: %s", pid, said)
	}
	sub := filepath.Join(mnt, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{second, sub} {
		if o := latchfs(t, "mount", sub, at); o.Code != 1 || !strings.Contains(o.Stderr, sub+" lies inside the mount at "+mnt) {
			t.Errorf("a mount of what is in one, at %s: %+v", at, o)
		}
	}
	if isMounted(second) {
		t.Error("the refused mount is there")
	}
	if err := os.WriteFile(filepath.Join(mnt, "f"), nil, 0o644); err != nil {
		t.Errorf("the first mount: %v", err)
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Errorf("umount: %+v", o)
	}
	if o := latchfs(t, "mount", data, second); o.Code != 0 {
		t.Errorf("after the first is gone: %+v", o)
	}
	if o := latchfs(t, "umount", second); o.Code != 0 {
		t.Errorf("umount: %+v", o)
	}
}

// TestDeadMountInTheWay: what a killed daemon left at the mount point is taken
// away by the next mount, at once and later, elsewhere and over the data itself.
func TestDeadMountInTheWay(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	for _, at := range []string{mnt, data} {
		for _, wait := range []time.Duration{0, 1500 * time.Millisecond} { // with and without what the kernel caches
			if o := latchfs(t, "mount", data, at); o.Code != 0 {
				t.Fatalf("mount at %s: %+v", at, o)
			}
			// Another file each time: what this process read in the last moment before the
			// kill is forgotten (docs/lost-updates.md), and a later write to the file refused.
			name := fmt.Sprintf("%s-%v", filepath.Base(at), wait)
			if err := os.WriteFile(filepath.Join(at, name), []byte(at), 0o644); err != nil {
				t.Fatal(err)
			}
			killDaemonAt(t, at)
			time.Sleep(wait) // until the kernel's caches have forgotten the mount
			if o := latchfs(t, "mount", data, at); o.Code != 0 {
				t.Fatalf("mount at %s %v after the daemon was killed: %+v", at, wait, o)
			}
			if b, err := os.ReadFile(filepath.Join(at, name)); string(b) != at {
				t.Errorf("%q, %v", b, err)
			}
			if n := mountsAt(t, at); n != 1 {
				t.Errorf("%d mounts on top of each other at %s", n, at)
			}
			killDaemonAt(t, at)
			if o := latchfs(t, "umount", at); o.Code != 0 || isMounted(at) {
				t.Errorf("umount of a dead mount: %+v", o)
			}
		}
	}
}

// killDaemonAt kills the daemon of the mount at a directory, which is found by
// its flock in the kernel's lock list, for the pid file may be hidden.
func killDaemonAt(t *testing.T, at string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, proc := range procs {
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		if len(args) < 3 || filepath.Base(args[0]) != "latchfs" || args[1] != "mount" || args[len(args)-1] != at {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(proc), &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the daemon dies", func() bool { return !errors.Is(syscall.Kill(pid, 0), nil) || isZombie(pid) })
		return
	}
	t.Fatalf("no daemon for %s", at)
}

func isZombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}

func mountsAt(t *testing.T, at string) int {
	t.Helper()
	found, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return i.Mountpoint != at, false })
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestRefusals: what cannot be mounted is refused with a reason, exit code 1,
// and nothing is left behind.
func TestRefusals(t *testing.T) {
	inTest(t)
	for name, c := range map[string]struct {
		prepare func(data string) error
		args    []string
		says    string
	}{
		"locks directory in the data": {
			prepare: func(data string) error { return os.Mkdir(filepath.Join(data, ".locks"), 0o755) },
			says:    ".locks",
		},
		"locks file in the data": {
			prepare: func(data string) error { return os.WriteFile(filepath.Join(data, ".locks"), nil, 0o644) },
			says:    ".locks",
		},
		"other locks directory in the data": {
			prepare: func(data string) error { return os.Mkdir(filepath.Join(data, "latches"), 0o755) },
			args:    []string{"--locks-dir", "latches"},
			says:    "latches",
		},
		"locks directory with a slash": {args: []string{"--locks-dir", "a/b"}, says: "a/b"},
		"reserved locks directory":     {args: []string{"--locks-dir", ".latchfs"}, says: ".latchfs"},
		"foreign state file": {
			prepare: func(data string) error { return os.WriteFile(filepath.Join(data, ".latchfs"), []byte("mine"), 0o644) },
			says:    ".latchfs",
		},
		"foreign state directory": {
			prepare: func(data string) error { return os.MkdirAll(filepath.Join(data, ".latchfs", "mine"), 0o755) },
			says:    ".latchfs",
		},
		"state directory is a link": {
			prepare: func(data string) error { return os.Symlink("/tmp", filepath.Join(data, ".latchfs")) },
			says:    ".latchfs",
		},
		"bad policy":    {args: []string{"--config", "/dev/null/x"}, says: "/dev/null/x"},
		"bad timeout":   {args: []string{"--lock-timeout", "soon"}, says: "soon"},
		"negative wait": {args: []string{"--lock-timeout", "-1s"}, says: "lock-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			data, mnt := newDirs(t)
			if c.prepare != nil {
				if err := c.prepare(data); err != nil {
					t.Fatal(err)
				}
			}
			before := treeOf(t, data)
			o := latchfs(t, append([]string{"mount", "--lock-timeout", "1s"}, append(c.args, data, mnt)...)...)
			if o.Code == 0 || !strings.Contains(o.Stderr, c.says) {
				t.Errorf("%+v, want a refusal that says %q", o, c.says)
			}
			if strings.Count(strings.TrimSpace(o.Stderr), "\n") > 1 {
				t.Errorf("the refusal is long: %s", o.Stderr)
			}
			if isMounted(mnt) || daemonOf(t, data) != 0 {
				t.Error("something is left")
			}
			if after := treeOf(t, data); c.prepare != nil && strings.Join(before, "\n") != strings.Join(after, "\n") {
				t.Errorf("the data directory has changed:\n%q\n%q", before, after)
			}
		})
	}
	t.Run("not a directory", func(t *testing.T) {
		data, mnt := newDirs(t)
		file := filepath.Join(data, "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{file, mnt}, {data, file}, {data + "/no", mnt}, {data, mnt + "/no"}, {file}, {data, data + "/sub"}, {mnt + "/..", mnt}} {
			if o := latchfs(t, append([]string{"mount"}, args...)...); o.Code != 1 || !strings.HasPrefix(o.Stderr, "latchfs mount: ") {
				t.Errorf("%q: %+v", args, o)
			}
		}
		if isMounted(mnt) || isMounted(data) || isMounted(file) {
			t.Error("something is mounted")
		}
	})
}

// TestOtherLocksDir: with another name, .locks in the data is ordinary.
func TestOtherLocksDir(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	if err := os.Mkdir(filepath.Join(data, ".locks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if o := latchfs(t, "mount", "--locks-dir", "latches", data, mnt); o.Code != 0 {
		t.Fatalf("%+v", o)
	}
	if err := os.WriteFile(filepath.Join(mnt, ".locks", "mine"), []byte("x"), 0o644); err != nil {
		t.Error(err)
	}
	if _, err := os.ReadFile(filepath.Join(mnt, "latches", "README")); err != nil {
		t.Error(err)
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Errorf("%+v", o)
	}
	if _, err := os.Stat(filepath.Join(data, ".locks", "mine")); err != nil {
		t.Error(err)
	}
}

// How large the files of whoever mounts may be (ulimit -f) is no limit of those who write on
// the mount.
func TestMountUnderAFileSizeLimit(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	o := finish(t, exec.Command("bash", "-c", `
ulimit -S -f 16; "$1" mount "$2" "$3" || exit
ulimit -S -f unlimited
head -c 1M /dev/zero > "$3/f" && echo x >> "$3/f" && stat -c %s "$3/f"
"$1" umount "$3"`, "bash", bench.binary, data, mnt))
	if o.Code != 0 || o.Stdout != "1048578\n" || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
}

// A mount that is seen in two places is unmounted in one, and nobody waits for its daemon.
func TestUmountOfABindMount(t *testing.T) {
	inTest(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	data, mnt := newDirs(t)
	o := finish(t, exec.Command("bash", "-c", `
set -e; mkdir "$2.bound"; "$1" mount "$3" "$2"; mount --bind "$2" "$2.bound"
"$1" umount --timeout 20s "$2.bound"; echo x > "$2/f"
"$1" umount "$2"; cat "$3/f"; rmdir "$2.bound"`, "bash", bench.binary, mnt, data))
	if want := "latchfs umount: warning: its daemon goes on, for the same is mounted on " + mnt + "\n"; o.Code != 0 || o.Stdout != "x\n" || o.Stderr != want {
		t.Errorf("%+v", o)
	}
}
