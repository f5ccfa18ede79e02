package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// readyEnv holds the number of a descriptor on which the daemon tells the
// command that started it that the mount answers.
const readyEnv = "LATCHFS_READY_FD"

// startBackground runs the same command line as a daemon in a session of its
// own and returns when its mount answers. The daemon has our standard error
// until then, so a refusal is printed by whoever found it; our exit code is
// then the daemon's.
func startBackground(args []string, stderr io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	daemon := exec.Command(self(), args...)
	daemon.Args[0] = "latchfs"
	daemon.Env = append(os.Environ(), readyEnv+"=3")
	daemon.ExtraFiles = []*os.File{w}
	daemon.Stderr = stderr
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	// What the caller's shell left open, such as a lock held by descriptor, is
	// not the daemon's to keep open.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}

	// The daemon is out of reach of the terminal's Ctrl-C; hand it on.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	err = daemon.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	go func() {
		for range signals {
			_ = daemon.Process.Signal(syscall.SIGTERM) // it may be gone already
		}
	}()
	if n, _ := r.Read(make([]byte, 1)); n == 1 {
		return daemon.Process.Release()
	}
	err = daemon.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return errors.New("the daemon ended before the mount was ready")
	case errors.As(err, &exit) && exit.Exited():
		return exitError(exit.ExitCode())
	default:
		return fmt.Errorf("the daemon died: %w", err)
	}
}

// starter is the command that waits for this daemon to be ready; nil if nobody
// does.
type starter struct{ pipe *os.File }

// adoptStarter finds out whether this process is the daemon of a waiting
// command.
func adoptStarter() (*starter, error) {
	value, ok := os.LookupEnv(readyEnv)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(readyEnv); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil, usagef("%s=%q: not a descriptor", readyEnv, value)
	}
	syscall.CloseOnExec(fd)
	return &starter{os.NewFile(uintptr(fd), readyEnv)}, nil
}

// ready lets the starter go and detaches from its terminal.
func (s *starter) ready(log *logSink) error {
	if s == nil {
		return nil
	}
	if err := log.Detach(); err != nil {
		return err
	}
	// A starter that is gone does not mind.
	_, _ = s.pipe.Write([]byte{'.'})
	return s.pipe.Close()
}

// self is the path of this program, under which it shows in process lists; a
// program that was replaced meanwhile runs as it was.
func self() string {
	const exe = "/proc/self/exe"
	path, err := os.Readlink(exe)
	if err != nil {
		return exe
	}
	if _, err := os.Stat(path); err != nil {
		return exe
	}
	return path
}
