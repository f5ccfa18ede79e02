package privileges

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// askedFor tells a process of the test that it is to give its privileges up, and to show what
// it has then.
const askedFor = "LATCHFS_TEST_PRIVILEGES"

func TestMain(m *testing.M) {
	if os.Getenv(askedFor) == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	bequeath()
	hold, held := make(chan struct{}), make(chan struct{})
	for range 4 { // threads that nobody uses at the time
		go func() {
			runtime.LockOSThread()
			bequeath()
			held <- struct{}{}
			<-hold
		}()
		<-held
	}
	switch err := Drop(); {
	case errors.Is(err, ErrUnsupported):
		fmt.Println("unsupported")
		os.Exit(0)
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, name := range tasks {
		status, err := os.ReadFile(name)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Printf("%s\n=\n", status)
	}
	child := exec.Command("cat", "/proc/self/status")
	child.Env = []string{"PATH=" + os.Getenv("PATH")}
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	close(hold)
	os.Exit(0)
}

// bequeath lets the programs that the thread runs inherit what it can do, if it can do anything.
func bequeath() {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return
	}
	for i := range data {
		data[i].Inheritable = data[i].Permitted
	}
	_ = unix.Capset(&hdr, &data[0])
}

// dropped are the states of the threads of a process that has dropped its privileges, and of a
// program that it has run since, which is the last.
func dropped(t *testing.T, as *syscall.SysProcAttr) []map[string]string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "test") // where another user reaches it
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(copied, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied)
	cmd.Dir, cmd.SysProcAttr = "/", as
	cmd.Env = append(os.Environ(), askedFor+"=1")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot reach the directory for temporary files")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.HasPrefix(string(out), "unsupported") {
		t.Skip("the test was built with cgo, as by -race")
	}
	var list []map[string]string
	for state := range strings.SplitSeq(string(out), "\n=\n") {
		fields := map[string]string{}
		for line := range strings.Lines(state) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		list = append(list, fields)
	}
	return list
}

// capabilities are those of a set of a state.
func capabilities(t *testing.T, state map[string]string, set string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(state[set], 16, 64)
	if err != nil {
		t.Fatalf("%s: %v", set, err)
	}
	return n
}

// own are the capabilities that the test has itself.
func own(t *testing.T) uint64 {
	t.Helper()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
}

// Every thread of root's process, whether it runs or not, has the capabilities that are needed
// and no other, and neither has a program that it runs.
func TestDrop(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has privileges to give up")
	}
	const needed = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
		1<<unix.CAP_FSETID | 1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_LINUX_IMMUTABLE |
		1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_MKNOD | 1<<unix.CAP_SETFCAP
	has := own(t)
	if has&^needed == 0 {
		t.Skip("the test has nothing to give up")
	}
	states := dropped(t, nil)
	if len(states) < 6 {
		t.Fatalf("there are %d states, of a process with five threads at least, and of a program", len(states))
	}
	mayChoose := has&(1<<unix.CAP_SETPCAP) != 0
	for i, state := range states {
		for _, set := range []string{"CapEff", "CapPrm"} {
			got := capabilities(t, state, set)
			if more := got &^ needed; more != 0 && (mayChoose || i < len(states)-1) {
				t.Errorf("state %d of %d, %s: %#x are left", i, len(states), set, more)
			}
			if missing := has & needed &^ got; missing != 0 {
				t.Errorf("state %d of %d, %s: %#x are missing", i, len(states), set, missing)
			}
		}
		if got := capabilities(t, state, "CapInh"); got != 0 {
			t.Errorf("state %d of %d: %#x are inherited", i, len(states), got)
		}
		if more := capabilities(t, state, "CapBnd") &^ needed; more != 0 && mayChoose {
			t.Errorf("state %d of %d: %#x may come back", i, len(states), more)
		}
		if state["NoNewPrivs"] != "1" {
			t.Errorf("state %d of %d: setuid programs give privileges", i, len(states))
		}
	}
}

// An ordinary user's process stays as it is: it needs a setuid program to mount.
func TestDropOfAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := Drop(); err != nil {
			t.Error(err)
		}
		return
	}
	states := dropped(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}})
	for i, state := range states {
		if state["NoNewPrivs"] != "0" {
			t.Errorf("state %d of %d: setuid programs give no privileges", i, len(states))
		}
		for c := range uint(unix.CAP_LAST_CAP + 1) {
			had, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
			if err == nil && had == 1 && capabilities(t, state, "CapBnd")&(1<<c) == 0 {
				t.Errorf("state %d of %d: capability %d is lost to setuid programs", i, len(states), c)
			}
		}
	}
}
