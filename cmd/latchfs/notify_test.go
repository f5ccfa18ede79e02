package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notifySocket is the service manager's side of sd_notify(3).
type notifySocket struct {
	*net.UnixConn
	path string
}

func newNotifySocket(t *testing.T) *notifySocket {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &notifySocket{conn, path}
}

// expect waits for a message.
func (s *notifySocket) expect(t *testing.T, want string) {
	t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := s.Read(buf)
	if err != nil {
		t.Fatalf("waiting for %s: %v", want, err)
	}
	if got := string(buf[:n]); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// TestService runs the daemon as systemd does: READY only when the mount
// answers, fed watchdog, STOPPING, and nothing left behind.
func TestService(t *testing.T) {
	if ok, _ := condition("fuse"); !ok {
		t.Skip("this kernel has no FUSE: /dev/fuse cannot be opened")
	}
	socket := newNotifySocket(t)
	data := t.TempDir()
	t.Cleanup(func() { unmountBelow(data) })
	if err := os.WriteFile(filepath.Join(data, "file"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command("latchfs", "mount", "--foreground", data)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket.path, "WATCHDOG_USEC=400000")
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()

	socket.expect(t, "READY=1")
	if m, err := mountAt(data); err != nil || m.Source != data {
		t.Errorf("ready, and the mount is %+v, %v", m, err)
	}
	socket.expect(t, "WATCHDOG=1")
	socket.expect(t, "WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for {
		buf := make([]byte, 4096)
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if string(buf[:n]) == "STOPPING=1" {
			break
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v\n%s", err, &log)
	}
	if _, err := mountAt(data); err == nil {
		t.Error("the mount is still there")
	}
}
