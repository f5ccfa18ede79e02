package validate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a daemon that is killed leaves running. The test binary is the daemon, too.

// asDaemon in the environment makes the test binary a daemon that checks its standard
// input with those options, again and again.
const asDaemon = "VALIDATE_AS_DAEMON"

func serveDaemon(options string) {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		panic(err)
	}
	var err error
	for err == nil {
		if _, err = os.Stdin.Seek(0, io.SeekStart); err == nil {
			err = Check(context.Background(), os.Stdin, "f", o)
		}
	}
	fmt.Fprintln(os.Stderr, "the check has ended:", err)
	os.Exit(1)
}

// daemon is a process that checks something.
type daemon struct {
	t   *testing.T
	cmd *exec.Cmd
}

func startDaemon(t *testing.T, text string, o Options) *daemon {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := &daemon{t, exec.Command(self)}
	d.cmd.Env, d.cmd.Stdin, d.cmd.Stderr = append(os.Environ(), asDaemon+"="+string(options)), f, os.Stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	return d
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// statusOf is the status of a process, and then of all its threads: some of what they give
// up is each one's own, and none of them need be the first.
func statusOf(pid string) string {
	var all strings.Builder
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
	for _, name := range append([]string{"/proc/" + pid + "/status"}, threads...) {
		status, _ := os.ReadFile(name)
		all.Write(status)
	}
	return all.String()
}

// child waits until the daemon has a child of which is is true, and returns that. It is
// killed with the test, if it lives then.
func (d *daemon) child(is func(status string) bool) int {
	d.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
		for _, task := range tasks {
			list, _ := os.ReadFile(task)
			for _, pid := range strings.Fields(string(list)) {
				if !is(statusOf(pid)) {
					continue
				}
				n, err := strconv.Atoi(pid)
				if err != nil {
					d.t.Fatal(err)
				}
				fd, err := unix.PidfdOpen(n, 0)
				if err != nil {
					d.t.Fatal(err)
				}
				d.t.Cleanup(func() {
					_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
					unix.Close(fd)
				})
				return n
			}
		}
	}
	d.t.Fatal("the daemon has no such child")
	return 0
}

// stopped is a child that does not end by itself, for it has been stopped. One that ends
// before that is followed by another.
func (d *daemon) stopped(is func(status string) bool) int {
	d.t.Helper()
	for {
		pid := d.child(is)
		if unix.Kill(pid, unix.SIGSTOP) != nil {
			continue
		}
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if strings.Contains(string(stat), ") T ") {
				return pid
			}
		}
	}
}

// dies kills the daemon, and waits until the child is gone, too.
func (d *daemon) dies(child int) {
	d.t.Helper()
	d.kill()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil || strings.Contains(string(stat), ") Z ") || strings.Contains(string(stat), ") X ") {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("it outlives the daemon: %s", stat)
		}
	}
}

// whose returns a line of a process's status that has a user's number four times.
func whose(uid int) string { return "\nUid:" + strings.Repeat(fmt.Sprintf("\t%d", uid), 4) + "\n" }

// A command dies with the daemon that was killed, whoever it runs as.
func TestCommandDiesWithTheDaemon(t *testing.T) {
	for _, other := range []bool{false, true} {
		o, uid := Options{Command: []string{"/bin/sleep", "1000"}, Timeout: time.Hour}, os.Getuid()
		if other {
			if uid != 0 {
				continue // becoming another user takes root
			}
			uid = 12345
			o.Credential, o.Helper = &Credential{UID: uint32(uid), GID: uint32(uid)}, self
		}
		d := startDaemon(t, "", o)
		d.dies(d.child(func(status string) bool {
			return strings.HasPrefix(status, "Name:\tsleep\n") && strings.Contains(status, whose(uid))
		}))
	}
}

// So does a parser, which is stopped here so that it does not end by itself.
func TestParserDiesWithTheDaemon(t *testing.T) {
	uid := os.Getuid()
	if uid == 0 {
		uid = nobody
	}
	long := strings.Repeat("a: 1\n---\n", 200_000)
	d := startDaemon(t, long, Options{Formats: []Format{YAML}, Helper: self})
	harmless := func(status string) bool {
		return strings.Contains(status, whose(uid)) && strings.Contains(status, "\nNoNewPrivs:\t1\n")
	}
	d.dies(d.stopped(harmless))
}
