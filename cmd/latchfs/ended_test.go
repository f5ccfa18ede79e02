package main

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// dieLater is the daemon of TestEndAtDeath: it starts the process that ends its mount, and
// waits to be killed.
func dieLater() {
	if err := startEnder(os.NewFile(3, "connection")); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(".")
	select {}
}

// When a daemon dies its connection is ended by the process that it has started, and not
// before.
func TestEndAtDeath(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	daemon := exec.Command(self())
	daemon.Args[0] = "die-later"
	daemon.ExtraFiles = []*os.File{w}
	started, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer daemon.Process.Kill()
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(buf); !os.IsTimeout(err) {
		t.Fatalf("while the daemon lives: %q, %v", buf[:n], err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(buf); string(buf[:n]) != "1" {
		t.Errorf("after its death: %q, %v", buf[:n], err)
	}
}

// A daemon that was dead before the process that waits for that was ready is not waited for.
func TestEndAfterDeath(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ender := exec.Command(self(), "end-mount-at-death", strconv.Itoa(os.Getppid())) // it has another parent
	ender.Args[0] = "latchfs"
	ender.ExtraFiles = []*os.File{w}
	out, err := ender.CombinedOutput()
	w.Close()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got, err := io.ReadAll(r); string(got) != "1" {
		t.Errorf("the connection is told %q, %v", got, err)
	}
}

// A mount without a connection is told of, and so is what is no mount.
func TestConnectionOfNoMount(t *testing.T) {
	if _, err := openConnection(t.TempDir()); err == nil {
		t.Error("a directory has a connection")
	}
}
