package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
)

// Exit codes of a command that could not be run, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// signalled is the exit code that shells give to what a signal ended.
func signalled(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailure
}

// catchSignals keeps signals from ending this process. Those that the caller
// wanted ignored (nohup, a background job) stay so, here and in CMD.
func catchSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// findProgram looks a command up as a shell does. One that cannot be run is told
// before anybody waits for a lock.
func findProgram(cmd *cobra.Command, name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) { // PATH has ".": as the caller wants
		return path, nil
	}
	if errors.Is(err, exec.ErrNotFound) && inPath(name) {
		err = &exec.Error{Name: name, Err: fs.ErrPermission}
	}
	return "", cannotRun(cmd, err)
}

// inPath tells whether PATH leads to a file of this name, executable or not.
func inPath(name string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// cannotRun says why CMD is not run.
func cannotRun(cmd *cobra.Command, err error) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", calledAs(cmd), printable.Text(err.Error()))
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitError(exitNotFound)
	}
	return exitError(exitNotExecutable)
}

// guarded is a command that runs under a lock.
type guarded struct {
	cmd     *cobra.Command
	program string // the file
	argv    []string
	env     []string
	signals <-chan os.Signal
}

// run returns when the command has ended, with the error that stands for its
// exit code.
func (g *guarded) run() error {
	child, err := g.start(g.program, g.argv)
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!, as for execvp(3)
		child, err = g.start("/bin/sh", append([]string{"sh", g.program}, g.argv[1:]...))
	}
	if err != nil {
		return cannotRun(g.cmd, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case s := <-g.signals:
			forward(child.Process, s)
		case err := <-ended:
			return exitOf(child.ProcessState, err)
		}
	}
}

// start runs the command in our process group: the terminal's signals are for
// both, and stopping one stops the other.
func (g *guarded) start(path string, argv []string) (*exec.Cmd, error) {
	child := &exec.Cmd{
		Path:   path,
		Args:   argv,
		Env:    g.env,
		Stdin:  g.cmd.InOrStdin(),
		Stdout: g.cmd.OutOrStdout(),
		Stderr: g.cmd.ErrOrStderr(),
	}
	return child, child.Start()
}

// forward hands a signal on, but for those that a terminal has sent to the
// command already.
func forward(child *os.Process, s os.Signal) {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		_ = child.Signal(s) // it may have ended just now
	}
}

// exitOf is how the command ended, as our own error.
func exitOf(state *os.ProcessState, err error) error {
	if state == nil {
		return err
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return exitError(signalled(status.Signal()))
	case state.ExitCode() != 0:
		return exitError(state.ExitCode())
	default:
		return err
	}
}
