package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	program := func() { main() }
	testscript.Main(m, map[string]func(){
		"latchfs":            program,
		"mount.latchfs":      program,
		"mount.fuse.latchfs": program,
	})
}

// TestScripts runs the command lines of testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
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
		if within(m.Mountpoint, dir) {
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
