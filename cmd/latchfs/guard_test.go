package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"latchfs/fs/control"
)

// However CMD ends, its exit code is guard's, and the lock is given back
// (SEED M3).
func TestGuardExitCodes(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "no-exec"), "", 0o600)
	mustWrite(t, filepath.Join(dir, "no-interpreter"), "#!/no/such/interpreter\n", 0o700)
	mustWrite(t, filepath.Join(dir, "no-hash-bang"), "exit 4\n", 0o700)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, tt := range []struct {
		cmd  string
		code int
		runs bool // and the lock is taken for it
	}{
		{"true", 0, true},
		{"exit 3", 3, true},
		{"exit 255", 255, true},
		{"kill -TERM $$", 128 + 15, true},
		{"kill -KILL $$", 128 + 9, true},
		{"kill -INT $$", 128 + 2, true},
		{"/no/such/program", 127, false},
		{"no-such-program", 127, false},
		{dir + "/no-exec", 126, false},
		{"no-exec", 126, false},
		{dir, 126, false},
		{"no-interpreter", 127, true},
		{"no-hash-bang", 4, true},
	} {
		d := newFakeDaemon(t, granting)
		argv := []string{"sh", "-c", tt.cmd}
		if strings.Contains(tt.cmd, "no-") || strings.HasPrefix(tt.cmd, "/") {
			argv = []string{tt.cmd}
		}
		got := d.run(append([]string{"guard", d.file("a"), "--"}, argv...)...)
		if got.code != tt.code || (got.stderr != "") != (tt.code == 126 || tt.code == 127) {
			t.Errorf("%s: %v", tt.cmd, got)
		}
		var want []control.Request
		if tt.runs {
			want = []control.Request{
				{Op: control.Acquire, Paths: []string{"a"}, Mode: "exclusive", Operation: filepath.Base(argv[0])},
				{Op: control.Release, Lock: "L1"},
			}
		}
		if diff := cmp.Diff(want, d.received()); diff != "" {
			t.Errorf("%s: %s", tt.cmd, diff)
		}
		<-d.ended
	}
}

func TestGuardPassesThrough(t *testing.T) {
	d := newFakeDaemon(t, granting)
	cmd := d.command("latchfs-faked", "guard", "--operation", "o", d.file("a"), "--",
		"sh", "-c", `cat; echo "$LATCHFS_SESSION,$1,$2"; echo err >&2`, "sh", "", "--wait")
	cmd.Env = append(cmd.Env, control.SessionEnv+"=outer")
	cmd.Stdin = strings.NewReader("in\n")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	d.start(cmd)
	if code := exitCode(t, cmd); code != 0 || stdout.String() != "in\nL1,,--wait\n" || stderr.String() != "err\n" {
		t.Error(outcome{code, stdout.String(), stderr.String()})
	}
	if req := <-d.asked; req.Operation != "o" {
		t.Errorf("%+v", req)
	}
}

// CMD is not run without the lock.
func TestGuardNotAcquired(t *testing.T) {
	for reply, code := range map[string]int{
		blocked: 8,
		`{"ok":false,"error":"lock_stale","message":"m"}`: 8,
		`{"ok":false,"error":"deadlock","message":"m"}`:   8,
		`{"ok":false,"error":"invalid","message":"m"}`:    2,
		`{"ok":false,"error":"fenced","message":"m"}`:     1,
		`{"ok":true,"token":7}`:                           1,
		`{"ok":true,"lock":"L1"}`:                         1,
		`gibberish`:                                       1,
		hangUp:                                            1,
	} {
		d := newFakeDaemon(t, always(reply))
		ran := filepath.Join(t.TempDir(), "ran")
		got := d.run("guard", "--json", d.file("a"), "--", "touch", ran)
		if got.code != code || got.stderr == "" || (got.stdout != "") != strings.HasPrefix(reply, `{"ok":false`) {
			t.Errorf("%s: %v", reply, got)
		}
		if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the command was run", reply)
		}
		if n := len(d.received()); n != 1 {
			t.Errorf("%s: %d requests", reply, n)
		}
	}
}

// A lock that was lost meanwhile is told, and changes nothing else.
func TestGuardReleaseFails(t *testing.T) {
	for reply, want := range map[string]string{
		`{"ok":false,"error":"fenced","message":"the lock was stolen"}`: "the lock was not released: the lock was stolen",
		`{"ok":true,"warning":"it was not held"}`:                       "it was not held",
		hangUp: "the lock was not released: ",
	} {
		d := newFakeDaemon(t, func(req control.Request) string {
			if req.Op == control.Release {
				return reply
			}
			return granting(req)
		})
		got := d.run("guard", d.file("a"), "--", "sh", "-c", "exit 3")
		if got.code != 3 || !strings.HasPrefix(got.stderr, "latchfs guard: warning: "+want) {
			t.Errorf("%s: %v", reply, got)
		}
	}
}

// The lock outlives a guard that is killed, as long as CMD runs, and no longer.
func TestGuardKilled(t *testing.T) {
	d := newFakeDaemon(t, granting)
	cmd := d.command("latchfs-faked", "guard", d.file("a"), "--", "sh", "-c", "echo ready; read x")
	stdin, _ := startReady(t, d, cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if !d.connected() {
		t.Error("the conversation ended with guard")
	}
	stdin.Close()
	<-d.ended
	if got := d.received(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// What CMD leaves behind has the descriptor, but no longer the lock.
func TestGuardLeavesProcessBehind(t *testing.T) {
	d := newFakeDaemon(t, granting)
	cmd := d.command("latchfs-faked", "guard", d.file("a"), "--", "sh", "-c", "exec 4<&0; cat <&4 >/dev/null & echo ready")
	stdin, _ := startReady(t, d, cmd)
	if code := exitCode(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := d.received(); len(got) != 2 || got[1].Op != control.Release {
		t.Errorf("%+v", got)
	}
	if !d.connected() {
		t.Error("the process does not have the descriptor")
	}
	stdin.Close()
	<-d.ended
}

func TestGuardForwardsSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		d := newFakeDaemon(t, granting)
		cmd := d.command("latchfs-faked", "guard", d.file("a"), "--", "print-signal")
		_, stdout := startReady(t, d, cmd)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		line, _ := stdout.ReadString('\n')
		if code := exitCode(t, cmd); code != 5 || line != s.String()+"\n" {
			t.Errorf("%v: exit code %d, CMD got %q", s, code, line)
		}
		if got := d.received(); len(got) != 2 || got[1].Op != control.Release {
			t.Errorf("%v: %+v", s, got)
		}
	}
}

// Ctrl-C reaches CMD from the terminal: guard neither ends nor sends it again.
func TestGuardSurvivesTerminal(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		d := newFakeDaemon(t, granting)
		cmd := d.command("latchfs-faked", "guard", d.file("a"), "--", "print-signal")
		_, stdout := startReady(t, d, cmd)
		// Signals that are pending together are taken in the order of their
		// numbers: if s were sent on, CMD would see it first.
		for _, s := range []syscall.Signal{s, syscall.SIGTERM} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		line, _ := stdout.ReadString('\n')
		if code := exitCode(t, cmd); code != 5 || line != "terminated\n" {
			t.Errorf("%v: exit code %d, CMD got %q", s, code, line)
		}
	}
}

// What the caller wants ignored, CMD ignores, too.
func TestGuardKeepsIgnored(t *testing.T) {
	d := newFakeDaemon(t, granting)
	cmd := d.command("sh", "-c", `trap "" HUP; exec latchfs-faked guard "$1" -- sh -c 'kill -HUP $PPID; kill -HUP $$; exit 4'`, "sh", d.file("a"))
	d.start(cmd)
	if code := exitCode(t, cmd); code != 4 {
		t.Errorf("exit code %d", code)
	}
}

// Who does not want to wait any longer leaves nothing behind.
func TestGuardInterruptedWait(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		d := newFakeDaemon(t, always(""))
		ran := filepath.Join(t.TempDir(), "ran")
		cmd := d.command("latchfs-faked", "guard", "--wait", "forever", d.file("a"), "--", "touch", ran)
		d.start(cmd)
		<-d.asked
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(t, cmd); code != 128+int(s) {
			t.Errorf("%v: exit code %d", s, code)
		}
		<-d.ended
		if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: the command was run", s)
		}
		if n := len(d.received()); n != 1 {
			t.Errorf("%v: %d requests", s, n)
		}
	}
}

// A signal that came together with the lock is not lost.
func TestGuardSignalBeforeCommand(t *testing.T) {
	for range 50 { // select has no order
		done, signals := make(chan asked, 1), make(chan os.Signal, 1)
		done <- asked{answer: &answer{Reply: control.Reply{OK: true}}}
		signals <- syscall.SIGTERM
		if a, err := await(done, signals); a != nil || err != exitError(128+15) {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

// A PATH with the working directory in it is as the caller wants it.
func TestGuardFindsInWorkingDirectory(t *testing.T) {
	d := newFakeDaemon(t, granting)
	t.Chdir(d.root)
	mustWrite(t, "program", "#!/bin/sh\nexit 4\n", 0o700)
	t.Setenv("PATH", ".:"+os.Getenv("PATH"))
	if got := d.run("guard", "a", "--", "program"); got != (outcome{code: 4}) {
		t.Error(got)
	}
}

// startReady starts a command that says when it is ready, and returns what it
// reads and what more it writes.
func startReady(t *testing.T, d *fakeDaemon, cmd *exec.Cmd) (io.Closer, *bufio.Reader) {
	t.Helper()
	in, stdin, err := os.Pipe() // unlike StdinPipe it stays open when cmd has ended
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	t.Cleanup(func() { stdin.Close() })
	cmd.Stdin = in
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.start(cmd)
	stdout := bufio.NewReader(pipe)
	if line, err := stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return stdin, stdout
}

// printSignal is a program that waits for a signal and says which it was.
func printSignal() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals)
	fmt.Println("ready")
	for s := range signals {
		if s != syscall.SIGURG { // the Go scheduler's
			fmt.Println(s)
			os.Exit(5)
		}
	}
}
