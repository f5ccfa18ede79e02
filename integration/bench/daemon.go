package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/load"
)

const (
	mountDeadline = 20 * time.Second // from the start until the mount is there
	stopDeadline  = 15 * time.Second // from SIGTERM to the end of the process
)

// daemon is a running mount. This process only watches the mount table; it
// never walks into the mount.
type daemon struct {
	mountpoint string
	logPath    string
	cmd        *exec.Cmd
	gone       chan struct{} // closed when the process has ended
	err        error         // how it ended; read after gone
}

// startDaemon returns when the mount is in the mount table. On failure it
// leaves neither process nor mount behind.
func startDaemon(ctx context.Context, command []string, mountpoint, logPath string) (*daemon, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d := &daemon{mountpoint: mountpoint, logPath: logPath, gone: make(chan struct{})}
	d.cmd = exec.Command(command[0], command[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// A process group of its own: Ctrl-C is for us, who then unmount.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.gone)
	}()
	if err := d.awaitMount(ctx); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *daemon) awaitMount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mountDeadline)
	defer cancel()
	for {
		if mounted, err := findMount(d.mountpoint); err != nil || mounted {
			return err
		}
		select {
		case <-d.gone:
			return d.died()
		case <-ctx.Done():
			return fmt.Errorf("no mount: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// died answers how the process ended, nil while it runs.
func (d *daemon) died() error {
	select {
	case <-d.gone:
		return fmt.Errorf("the daemon ended (%w): %s", d.err, d.lastWords())
	default:
		return nil
	}
}

// lastWords is the end of what the daemon logged.
func (d *daemon) lastWords() string {
	b, err := os.ReadFile(d.logPath)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	lines := strings.Split(string(b), "\n")
	return load.Shorten(strings.Join(lines[max(0, len(lines)-3):], " / "))
}

// abort makes the kernel answer everything that waits for the daemon: the way
// to free a client that no signal reaches. A forced unmount aborts the
// connection first, and may then find the mount busy all the same.
func (d *daemon) abort() error {
	err := unix.Unmount(d.mountpoint, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) || !isMounted(d.mountpoint) {
		return nil
	}
	return err
}

// stop unmounts and ends the daemon, politely first: an ordinary unmount, then
// SIGTERM, then an aborted connection with a lazy unmount and SIGKILL.
func (d *daemon) stop() error {
	err := unmount(d.mountpoint)
	if err == nil && d.wait(stopDeadline) {
		return nil
	}
	d.signal(syscall.SIGTERM)
	if d.wait(stopDeadline) && !isMounted(d.mountpoint) {
		return nil
	}
	if err == nil {
		err = errors.New("the daemon did not end")
	}
	problem := fmt.Errorf("%s did not unmount cleanly, so by force: %w", d.mountpoint, err)
	if e := d.abort(); e != nil {
		problem = errors.Join(problem, e)
	}
	d.signal(syscall.SIGKILL)
	if isMounted(d.mountpoint) {
		if e := unix.Unmount(d.mountpoint, unix.MNT_DETACH); e != nil {
			problem = errors.Join(problem, fmt.Errorf("lazy unmount: %w", e))
		}
	}
	d.wait(stopDeadline)
	return problem
}

func (d *daemon) signal(s syscall.Signal) {
	select {
	case <-d.gone: // its pid may be somebody else's by now
	default:
		_ = d.cmd.Process.Signal(s) // it may end meanwhile, which is as good
	}
}

// wait reports whether the process ended in time.
func (d *daemon) wait(limit time.Duration) bool {
	select {
	case <-d.gone:
		return true
	case <-time.After(limit):
		return false
	}
}
