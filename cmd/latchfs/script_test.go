package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// namespaceEnv marks the test process that has a mount namespace of its own.
const namespaceEnv = "LATCHFS_TEST_NAMESPACE"

func TestMain(m *testing.M) {
	commands := map[string]func(){
		"latchfs": main, "mount.latchfs": main, "mount.fuse.latchfs": main,
		"latchfs-faked": mainFaked, "print-signal": printSignal, "die-later": dieLater,
	}
	_, isCommand := commands[filepath.Base(os.Args[0])]
	if !isCommand && os.Geteuid() == 0 && os.Getenv(namespaceEnv) == "" {
		os.Exit(runInNamespace())
	}
	if !isCommand {
		heedSignals()
		time.Local = time.UTC // the times of the output are those of the records
	}
	testscript.Main(m, commands)
}

// heedSignals lets the programs that the tests start begin with signals as they are
// by default. Under nohup or in the background of a script some are ignored, and
// whoever is started by us would go on ignoring them; those that are caught here
// are not.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// runInNamespace runs the tests in a mount namespace of their own: mounts that
// they leave behind die with it, and no namespace that another process makes
// meanwhile gets a copy of theirs, which would keep the daemon alive.
func runInNamespace() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "the tests in their mount namespace:", err)
	return 1
}

// TestScripts runs the command lines of testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or every command takes a second
			env.Defer(func() { unmountBelow(env.WorkDir) })
			return nil
		},
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"code": code},
		Condition: condition,
	})
}

// code is the script command `code N PROGRAM ARGS...`: it runs the program and
// fails unless its exit code is N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args...]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// unmountBelow removes the mounts that a script left behind.
func unmountBelow(dir string) {
	mounts, err := latchfsMounts()
	if err != nil {
		return
	}
	for _, m := range mounts {
		// What lies elsewhere is not looked at: a mount whose daemon hangs would hang us.
		if strings.HasPrefix(m.Mountpoint, dir+"/") {
			_ = unmount(m.Mountpoint, true) // the test has failed already
		}
	}
}

// condition answers [root] and [fuse].
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "fuse":
		f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			return false, nil
		}
		return true, f.Close()
	}
	return false, os.ErrInvalid
}
