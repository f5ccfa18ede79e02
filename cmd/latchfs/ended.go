package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs"
)

// The kernel ends a mount when its daemon has died, and everybody who waits for an answer
// gets ENOTCONN. It does so when the last thread is gone; and one that is telling the kernel
// to forget a name waits for the lock of that name's directory, which a program may have that
// waits for the daemon. Killed at such a moment the daemon never ends, and the programs wait
// for ever. So a small process waits for its death beside it, and ends the mount then.

// connections is where the kernel shows FUSE connections (fusectl).
const connections = "/sys/fs/fuse/connections"

// deathSignal tells the process that the daemon has died.
const deathSignal = unix.SIGUSR1

// A daemon that dies while the process starts may have sent the signal too early to be heeded:
// until then it is looked at, so often.
const (
	deathLooks = 20
	deathPause = 100 * time.Millisecond
)

// newEndCommand makes the hidden `latchfs end-mount-at-death`, which is that process. Its
// descriptor 3 is the connection's file abort.
func newEndCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "end-mount-at-death PID",
		Short:  "Wait for the death of the daemon PID that has started this, and end its mount",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			daemon, err := strconv.Atoi(args[0])
			if err != nil {
				return usagef("%q is no process id", args[0])
			}
			awaitDeath(daemon)
			return abort(os.NewFile(3, "abort"))
		},
	}
}

// awaitDeath returns when the daemon that has started this process has died.
func awaitDeath(daemon int) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, deathSignal)
	os.Stdout.Close() // the daemon waits for that: from now on the signal is heeded
	for range deathLooks {
		if hasDied(daemon) {
			return
		}
		select {
		case <-died:
			return
		case <-time.After(deathPause):
		}
	}
	<-died
}

// hasDied reports whether a daemon that has started this process is gone, or is but for
// threads that cannot end.
func hasDied(daemon int) bool {
	state, _, err := stateOf(filepath.Join("/proc", strconv.Itoa(daemon)))
	return os.Getppid() != daemon || err != nil || state == "Z"
}

// abort ends a connection, if that has not ended.
func abort(connection *os.File) error {
	_, err := connection.WriteString("1")
	return err
}

// endAtDeath starts the process that ends a mount when this one has died.
func endAtDeath(mountpoint string, log fs.Logger) {
	connection, err := openConnection(mountpoint)
	if err == nil {
		defer connection.Close()
		err = startEnder(connection)
	}
	if err != nil {
		log.Infof("if this daemon is killed, programs may hang until its mount is ended by umount -f: %v", err)
	}
}

// openConnection opens the file by which the connection of a mount is ended. Where systemd
// has not mounted fusectl, root does without a mount that others see.
func openConnection(mountpoint string) (*os.File, error) {
	m, err := mountAt(mountpoint)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(strconv.Itoa(m.Minor), "abort")
	connection, err := os.OpenFile(filepath.Join(connections, name), os.O_WRONLY, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return connection, err
	}
	dir, failed := mountUnseen("fusectl")
	if failed != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// mountUnseen mounts a filesystem nowhere, for who has its descriptor.
func mountUnseen(filesystem string) (dir int, err error) {
	config, err := unix.Fsopen(filesystem, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(config)
	if err := unix.FsconfigCreate(config); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	dir, err = unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0)
	return dir, os.NewSyscallError("fsmount", err)
}

// startAndHear starts a command, and waits until that has closed its standard output.
func startAndHear(cmd *exec.Cmd) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, out)
	return err
}

// startEnder starts `latchfs end-mount-at-death`.
func startEnder(connection *os.File) error {
	started := make(chan error)
	go func() {
		// The signal comes at the death of the thread that starts the process (prctl(2),
		// PR_SET_PDEATHSIG): this one lives as long as the daemon does.
		runtime.LockOSThread()
		cmd := exec.Command(self(), "end-mount-at-death", strconv.Itoa(os.Getpid()))
		cmd.Args[0] = "latchfs"
		cmd.Dir = "/"
		cmd.Env = []string{"GOMAXPROCS=1"}
		cmd.ExtraFiles = []*os.File{connection}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: deathSignal}
		err := startAndHear(cmd)
		if err != nil {
			err = fmt.Errorf("start the process that waits for that: %w", err)
		}
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return <-started
}
