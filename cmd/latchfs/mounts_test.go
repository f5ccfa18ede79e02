package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// A daemon that never answers is told of, and keeps nobody from the others.
func TestListDoesNotWaitForAHungMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		sys := fakeSystem([]*mountinfo.Info{fakeMountAt("/hung", 1), fakeMountAt("/well", 2)}, func(name string) (*os.File, error) {
			if strings.HasPrefix(name, "/hung/") {
				<-hung
				return nil, os.ErrClosed
			}
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { unix.Close(fds[1]) })
			_, err = unix.Write(fds[1], []byte(locks(activeRecord)(control.Request{})+"\n"))
			return os.NewFile(uintptr(fds[0]), name), err
		})
		var stdout, stderr bytes.Buffer
		code := executeOn(sys, []string{"list"}, &stdout, &stderr)
		if code != 1 || !strings.Contains(stdout.String(), "/well:\n") || stderr.String() != "latchfs list: /hung: no answer within 10s: latchfs hangs there, or is stopped\n" {
			t.Errorf("ended with %d\n%s%s", code, &stdout, &stderr)
		}
	})
}

// Nobody but its user gets into a user's own mount: whoever asks about all mounts does not
// mean that one. Whoever names it is told.
func TestListLeavesOutWhatIsBarred(t *testing.T) {
	barred, well := fakeMountAt("/barred", 1), fakeMountAt("/well", 2)
	for _, tt := range []struct {
		mounts         []*mountinfo.Info
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]*mountinfo.Info{barred, well}, []string{"list"}, 0, "/well:\n", ""},
		{[]*mountinfo.Info{barred, well}, []string{"list", "--json"}, 0, `{"mount":"/well","ok":true,`, ""},
		{[]*mountinfo.Info{barred}, []string{"list"}, 1, "", "latchfs list: no latchfs mount\n"},
		{[]*mountinfo.Info{barred, fakeMountAt("/dead", 3)}, []string{"list"}, 1, "", "latchfs list: open /dead/.locks/control:"},
	} {
		d := newFakeDaemon(t, locks(activeRecord))
		sys := fakeSystem(tt.mounts, func(name string) (*os.File, error) {
			switch {
			case strings.HasPrefix(name, "/barred/"):
				return nil, &os.PathError{Op: "open", Path: name, Err: unix.EACCES}
			case strings.HasPrefix(name, "/dead/"):
				return nil, &os.PathError{Op: "open", Path: name, Err: unix.ENOTCONN}
			}
			return d.connect(), nil
		})
		var stdout, stderr bytes.Buffer
		code := executeOn(sys, tt.args, &stdout, &stderr)
		if code != tt.code || !strings.HasPrefix(stdout.String(), tt.stdout) || !strings.HasPrefix(stderr.String(), tt.stderr) ||
			tt.stdout == "" && stdout.Len() > 0 || tt.stderr == "" && stderr.Len() > 0 {
			t.Errorf("%q of %d mounts: ended with %d\n%s%s", tt.args, len(tt.mounts), code, &stdout, &stderr)
		}
	}
}

// Who meets a mount whose daemon has ended is told what to do.
func TestDeadMountIsExplained(t *testing.T) {
	sys := fakeSystem([]*mountinfo.Info{fakeMountAt("/dead", 1)}, func(name string) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.ENOTCONN}
	})
	var stdout, stderr bytes.Buffer
	code := executeOn(sys, []string{"list"}, &stdout, &stderr)
	if code != 1 || !strings.HasSuffix(stderr.String(), "'latchfs mount' replaces it, and this removes it: latchfs umount /dead\n") {
		t.Errorf("ended with %d\n%s", code, &stderr)
	}
}

// Of several mounts each JSON document says which it is about.
func TestOfMount(t *testing.T) {
	m := fakeMountAt("/m\xff", 1)
	for object, want := range map[string]string{
		"{\"ok\":true}\n":       `{"mount":"/m\\xff","mount_base64":"L23/","ok":true}` + "\n",
		"{\n  \"held\": 0\n}\n": "{\n  \"mount\": \"/m\\\\xff\",\n  \"mount_base64\": \"L23/\",\n  \"held\": 0\n}\n",
		"":                      "",
	} {
		got := string(ofMount([]byte(object), m))
		if got != want || got != "" && !json.Valid([]byte(got)) {
			t.Errorf("%q: %q, want %q", object, got, want)
		}
	}
}
