package integration

import (
	"errors"
	"fmt"
	"net"
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

// Start mounts; it returns when the mount answers.
func (m *Mount) Start(t testing.TB) {
	t.Helper()
	ready, err := m.listenReady()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(m.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if st, err := log.Stat(); err == nil {
		m.logStart = st.Size()
	}
	binary := bench.checked
	if m.options.installed {
		binary = bench.binary
	}
	m.daemon = exec.Command(binary, m.arguments()...)
	m.daemon.Stdout, m.daemon.Stderr = log, log
	m.asOwner(m.daemon)
	if len(m.options.groups) > 0 {
		m.daemon.SysProcAttr.Credential = &syscall.Credential{Groups: m.options.groups}
	}
	if m.options.foreignPID {
		m.separatePIDs(t)
	}
	m.daemon.Env = append(m.daemon.Env, "NOTIFY_SOCKET="+m.notifySocket())
	m.daemon.Env = append(m.daemon.Env, m.options.env...)
	if f := m.options.faults; f != nil {
		if err := f.start(m.daemon); err != nil {
			t.Fatal(err)
		}
	} else if err := m.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	m.exited = make(chan struct{})
	go func() {
		m.daemon.Wait()
		close(m.exited)
	}()
	if err := m.awaitReady(ready); err != nil {
		t.Fatalf("latchfs %s: %v\n%s", strings.Join(m.arguments(), " "), err, m.log())
	}
	m.control = m.newControl()
}

// separatePIDs has the daemon started in new pid and mount namespaces, with its
// own /proc, from which its mount propagates to us.
func (m *Mount) separatePIDs(t testing.TB) {
	t.Helper()
	base := filepath.Dir(m.Data)
	if err := unix.Mount(base, base, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", base, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"sh", "-c", `mount -t proc proc /proc && exec "$@"`, "sh"}, m.daemon.Args...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	m.daemon.Path, m.daemon.Args = sh, argv
	m.daemon.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
}

func (m *Mount) arguments() []string {
	argv := append([]string{"mount", "--foreground"}, m.options.args...)
	if m.options.config != "" {
		argv = append(argv, "--config", filepath.Join(filepath.Dir(m.Data), "policy.toml"))
	}
	argv = append(argv, m.Data)
	if !m.options.overItself {
		argv = append(argv, m.Dir)
	}
	return argv
}

func (m *Mount) closeNotify() {
	if m.notify != nil {
		m.notify.Close()
	}
}

func (m *Mount) notifySocket() string { return filepath.Join(m.Home(), "notify") }

// listenReady takes what the daemon tells its service manager: the channel is
// closed when it says READY=1.
func (m *Mount) listenReady() (<-chan struct{}, error) {
	m.closeNotify()
	os.Remove(m.notifySocket())
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notifySocket(), Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	m.notify = conn
	ready := make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		for said := false; ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if !said && strings.Contains(string(buf[:n]), "READY=1") {
				said = true
				close(ready)
			}
		}
	}()
	return ready, os.Chmod(m.notifySocket(), 0o777)
}

// awaitReady waits for READY=1, which latchfs sends when its mount answers.
func (m *Mount) awaitReady(ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-m.exited:
		return fmt.Errorf("ended before it was ready: %v", m.daemon.ProcessState)
	case <-time.After(patience):
		return errors.New("no READY=1")
	}
}

// PID is the daemon's.
func (m *Mount) PID() int { return m.daemon.Process.Pid }

// Running tells whether the daemon is there.
func (m *Mount) Running() bool {
	if m.daemon == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// Stop ends the daemon with SIGTERM, and fails the test unless it exits cleanly
// and leaves no mount.
func (m *Mount) Stop(t testing.TB) {
	t.Helper()
	if !m.Running() {
		return
	}
	m.daemon.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.exited:
	case <-time.After(patience):
		m.dumpDaemon()
		t.Errorf("latchfs did not end within %v of SIGTERM", patience)
		m.Crash(t)
		return
	}
	if state := m.daemon.ProcessState; state.ExitCode() != 0 {
		t.Errorf("latchfs ended with %v", state)
	}
	if m.mounted() {
		t.Errorf("the mount is still there after latchfs ended")
		m.detach()
	}
}

// dumpDaemon asks the Go runtime for all stacks, for the log.
func (m *Mount) dumpDaemon() {
	m.daemon.Process.Signal(syscall.SIGQUIT)
	select {
	case <-m.exited:
	case <-time.After(5 * time.Second):
	}
}

// Crash kills the daemon and leaves its dead mount in place, as a crash does.
func (m *Mount) Crash(t testing.TB) {
	m.daemon.Process.Kill()
	select {
	case <-m.exited:
	case <-time.After(patience):
		t.Errorf("latchfs does not die of SIGKILL")
	}
}

// detach is the last resort: it takes the mount away whoever uses it.
func (m *Mount) detach() {
	for m.mounted() {
		if err := unix.Unmount(m.Dir, unix.MNT_DETACH); err != nil {
			exec.Command("fusermount3", "-u", "-z", m.Dir).Run()
			return
		}
	}
}

// mounted tells whether anything is mounted at the mount point.
func (m *Mount) mounted() bool {
	found, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(m.Dir))
	return err == nil && len(found) > 0
}
