package judge

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// What a policy asks holds of files that are staged.
func TestRules(t *testing.T) {
	s := newStage(t)
	s.rules(asJSON, "staged")
	s.set["live"] = policy.Settings{Mode: policy.Live, Validate: asJSON}
	if s.Rules("staged") != asJSON {
		t.Error("nothing is asked of a staged file")
	}
	for _, path := range []string{"live", "other"} {
		if v := s.Rules(path); v != nil {
			t.Errorf("%s: %+v", path, v)
		}
	}
}

func TestCheck(t *testing.T) {
	s := newStage(t)
	s.rules(asJSON, "json")
	s.rules(&policy.Validation{NonEmpty: true, MaxSize: 4}, "sized")
	s.rules(&policy.Validation{Formats: []policy.Format{policy.JSON, policy.JSONL}}, "both")
	for _, c := range []struct{ path, text, by string }{
		{"json", "{}", ""},
		{"json", "{", string(policy.JSON)},
		{"free", "{", ""},
		{"sized", "{{{{", ""},
		{"sized", "{{{{{", validate.MaxSize},
		{"sized", "", validate.NonEmpty},
		{"both", "{}\n", ""},
		{"both", "{\n}\n", string(policy.JSONL)},
	} {
		fd, _ := s.file(c.text)
		if by := refusedBy(t, s.Check(c.path, fd, 0)); by != c.by {
			t.Errorf("%q as %s: refused by %q, want %q", c.text, c.path, by, c.by)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Errorf("the caller's descriptor: %v", err)
		}
	}
	var r *validate.Refusal
	if err := s.Check("json", -1, 0); err == nil || errors.As(err, &r) {
		t.Errorf("no file: %v", err)
	}
}

// shell is a rule that a command checks.
func shell(line string) *policy.Validation {
	return &policy.Validation{Command: []string{"/bin/sh", "-c", line}, Timeout: time.Minute, CommandUser: "54321"}
}

// No command runs before it is said as whom, nor as another user than the policy's.
func TestCommandRunsAsSomebody(t *testing.T) {
	s := newStage(t)
	s.rules(shell("exit 0"), "a")
	fd, _ := s.file("x")
	if err := s.Check("a", fd, 0); err != errNoUser {
		t.Errorf("as nobody: %v", err)
	}
	s.RunAs(Users{named: map[string]*validate.Credential{"54322": {UID: 54322}}})
	if err := s.Check("a", fd, 0); err != errNoUser {
		t.Errorf("as somebody else: %v", err)
	}
	s.RunAs(Ourselves())
	if err := s.Check("a", fd, 0); err != nil {
		t.Errorf("as ourselves: %v", err)
	}
	s.rules(shell("exit 1"), "a")
	if by := refusedBy(t, s.Check("a", fd, 0)); by != validate.Command {
		t.Errorf("refused by %q", by)
	}
}

// A command of root's runs as the user whom the policy names, with the daemon's own program
// as its helper.
func TestCommandRunsAsThePolicysUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, who may become another user")
	}
	s := newStage(t)
	s.Helper = "/proc/self/exe"
	users, err := FindUsers([]string{"54321"})
	if err != nil {
		t.Fatal(err)
	}
	s.RunAs(users)
	s.rules(shell(`echo "as $(id -u)"; exit 1`), "a")
	fd, _ := s.file("x")
	var r *validate.Refusal
	if err := s.Check("a", fd, 0); !errors.As(err, &r) || !strings.Contains(strings.Join(r.Output, "\n"), "as 54321") {
		t.Errorf("%v, %+v", err, r)
	}
}

// What changes while it is looked at is looked at again, a few times.
func TestContentThatChanges(t *testing.T) {
	s := newStage(t)
	s.RunAs(Ourselves())
	fd, name := s.file("x")
	looks := name + ".looks"
	grow := func(until int) *policy.Validation {
		return shell("echo >>" + looks + "; if [ $(wc -l <" + looks + ") -le " + strconv.Itoa(until) + " ]; then echo >>" + name + "; fi")
	}
	for until, want := range map[int]error{0: nil, 1: nil, settleTries - 1: nil, settleTries: ErrUnsettled} {
		_ = os.Remove(looks)
		s.rules(grow(until), "a")
		if err := s.Check("a", fd, 0); err != want {
			t.Errorf("changed %d times: %v", until, err)
		}
		if n := strings.Count(readAll(t, looks), "\n"); n != min(until+1, settleTries) {
			t.Errorf("changed %d times: looked at %d times", until, n)
		}
	}
}

func readAll(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A stop breaks off what runs, and what would run later.
func TestStop(t *testing.T) {
	s := newStage(t)
	s.RunAs(Ourselves())
	fd, name := s.file("x")
	s.rules(shell("echo >"+name+".begun; exec sleep 60"), "a")
	done := make(chan error)
	go func() { done <- s.Check("a", fd, 0) }()
	for {
		if _, err := os.Stat(name + ".begun"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	if err := <-done; Errno(err) != unix.EINTR {
		t.Errorf("what ran: %v", err)
	}
	if err := s.Check("a", fd, 0); Errno(err) != unix.EINTR {
		t.Errorf("after the stop: %v", err)
	}
	if s.Context().Err() == nil {
		t.Error("the context goes on")
	}
}

// A check ends for a caller who is called away, which is looked for once a signal was
// announced, and with the mount.
func TestUntil(t *testing.T) {
	const interval = 20 * time.Millisecond
	for name, c := range map[string]struct {
		signal, stop bool
		calledAt     int32 // look at which the caller is called away; 0: never
		ended        bool
		looks        int32
	}{
		"nothing happens":               {},
		"called away at once":           {signal: true, calledAt: 1, ended: true, looks: 1},
		"called away later":             {signal: true, calledAt: 4, ended: true, looks: 4},
		"a signal that is none":         {signal: true, looks: 51},
		"the mount ends":                {stop: true, ended: true},
		"the mount ends after a signal": {signal: true, stop: true, ended: true, looks: 51},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := New(Config{})
			cancel := make(chan struct{})
			var looks atomic.Int32
			ctx, stop := j.Until(cancel, interval, func() bool { return looks.Add(1) == c.calledAt })
			if c.signal {
				close(cancel)
			}
			time.Sleep(50*interval + interval/2)
			if c.stop {
				j.Stop()
			}
			synctest.Wait()
			if ended := ctx.Err() == context.Canceled; ended != c.ended {
				t.Errorf("%s: ended %v", name, ended)
			}
			if n := looks.Load(); n != c.looks {
				t.Errorf("%s: %d looks, want %d", name, n, c.looks)
			}
			if c.ended && !c.stop && j.Context().Err() != nil {
				t.Errorf("%s: the others' checks have ended, too", name)
			}
			stop()
			j.Stop()
		})
	}
}

// A command that takes longer than the policy allows refuses.
func TestTimeout(t *testing.T) {
	s := newStage(t)
	s.RunAs(Ourselves())
	v := shell("exec sleep 60")
	v.Timeout = 20 * time.Millisecond
	s.rules(v, "a")
	fd, _ := s.file("x")
	begun := time.Now()
	if by := refusedBy(t, s.Check("a", fd, 0)); by != validate.Command || time.Since(begun) >= validate.DefaultTimeout {
		t.Errorf("refused by %q after %v", by, time.Since(begun))
	}
}

// What is opened to be judged is closed.
func TestNothingStaysOpen(t *testing.T) {
	s := newStage(t)
	s.rules(asJSON, "a")
	fd, _ := s.file("{}")
	k := Candidate{s.content("{}"), "a", asJSON}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for name, do := range map[string]func(){
		"a check":   func() { _ = s.Check("a", fd, 0) },
		"a look":    func() { TakesTime([]Candidate{k}) },
		"admission": func() { _, _ = s.Admit(s.Context(), &Passed{}, 0, []Candidate{k}) },
	} {
		before := open()
		for range 10 {
			do()
		}
		if now := open(); now >= before+10 {
			t.Errorf("%s: %d descriptors more", name, now-before)
		}
	}
}
