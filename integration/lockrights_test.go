package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Locks of one ordinary user against another, on root's mount: a lock adds no right
// to its holder.

// strangerMounts runs a test on root's mount, with passthrough and without. The data
// has a directory "alice" with a file f of 0644 that belong to the one user, and a
// directory "bob" that belongs to the other.
func strangerMounts(t *testing.T, test func(t *testing.T, m *Mount), opts ...mountOption) {
	t.Helper()
	t.Run("passthrough", func(t *testing.T) { oneStrangerMount(t, test, opts...) })
	t.Run("no-passthrough", func(t *testing.T) { oneStrangerMount(t, test, append([]mountOption{noPassthrough()}, opts...)...) })
}

// oneStrangerMount is strangerMounts with passthrough alone.
func oneStrangerMount(t *testing.T, test func(t *testing.T, m *Mount), opts ...mountOption) {
	t.Helper()
	needsLatchfs(t)
	needsRoot(t)
	test(t, mount(t, append([]mountOption{withSeed(fillStrangers)}, opts...)...))
}

// fillStrangers makes each user's directory, with a file.
func fillStrangers(data string) error {
	for name, uid := range map[string]int{"alice": ordinaryUID, "bob": otherUID} {
		dir := filepath.Join(data, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte("old\n"), 0o644); err != nil {
			return err
		}
		if err := os.Lchown(dir, uid, uid); err != nil {
			return err
		}
		if err := os.Lchown(file, uid, uid); err != nil {
			return err
		}
	}
	return nil
}

// change does to alice's file what its owner may.
func change(t *testing.T, alice *Client) {
	t.Helper()
	try := func(what string, req wire.Request) int {
		t.Helper()
		r, err := alice.Do(req)
		if err != nil {
			t.Errorf("the owner's %s: %v", what, err)
		}
		return int(r.N)
	}
	path := alice.m.Path
	try("chmod", wire.Request{Op: "chmod", Path: path("alice/f"), Mode: 0o644})
	fd := try("open", wire.Request{Op: "open", Path: path("alice/f"), Flags: unix.O_WRONLY | unix.O_TRUNC})
	if fd > 0 {
		alice.Write(fd, "new\n")
		try("close", wire.Request{Op: "close", FD: fd})
	}
	try("rename", wire.Request{Op: "rename", Path: path("alice/f"), To: path("alice/g")})
	try("rename", wire.Request{Op: "rename", Path: path("alice/g"), To: path("alice/f")})
	try("unlink", wire.Request{Op: "unlink", Path: path("alice/f")})
	fd = try("create", wire.Request{Op: "open", Path: path("alice/f"), Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o644})
	if fd > 0 {
		try("close", wire.Request{Op: "close", FD: fd})
	}
}

// A program that may only read a file keeps neither its owner nor root from it, by
// whatever lock, and is itself kept out by those who lock the same way.
func TestReadersLockKeepsNobodyOut(t *testing.T) {
	strangerMounts(t, func(t *testing.T, m *Mount) {
		alice, bob, root := m.ClientAs(t, ordinaryUID), m.ClientAs(t, otherUID), m.Client(t)
		for _, how := range []int{unix.LOCK_SH, unix.LOCK_EX} {
			fb := bob.Open("alice/f", unix.O_RDONLY)
			bob.OK(flockReq(fb, how))
			if how == unix.LOCK_EX {
				fa := alice.Open("alice/f", unix.O_RDONLY)
				if _, err := alice.Do(flockReq(fa, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
					t.Errorf("another's flock: %v, want EAGAIN", err)
				}
				alice.MustClose(fa)
				// Whoever waits for the reader's lock keeps nobody out either.
				fr := root.Open("alice/f", unix.O_RDONLY)
				wait := root.Go(flockReq(fr, unix.LOCK_EX))
				wait.MustBlock(t)
				change(t, alice)
				bob.MustClose(fb)
				wait.OK()
				root.MustClose(fr)
				continue
			}
			change(t, alice)
			bob.MustClose(fb)
		}
		fb := bob.Open("alice/f", unix.O_RDONLY)
		bob.OK(wire.Request{Op: "setlk", FD: fb, Kind: unix.F_RDLCK})
		change(t, alice)
		bob.MustClose(fb)

		guard := m.guardAs(t, otherUID, "--mode", "shared", m.Path("alice/f"))
		change(t, alice)
		guard()
	}, shortWait)
}

// ask sends a request through the control file and returns the reply.
func (c *Client) ask(fd int, line string) string {
	c.t.Helper()
	c.Write(fd, line+"\n")
	return string(c.OK(wire.Request{Op: "read", FD: fd, Len: 4096}).Data)
}

// guardAs lets a user hold a lock until the function that it returns is called.
func (m *Mount) guardAs(t *testing.T, uid int, argv ...string) func() {
	t.Helper()
	c := m.ClientAs(t, uid)
	line := `{"op":"acquire","mode":"exclusive","paths":[%]}`
	if argv[0] == "--mode" {
		line, argv = strings.Replace(line, "exclusive", argv[1], 1), argv[2:]
	}
	if argv[0] == "--tree" {
		line, argv = strings.Replace(line, "paths", "trees", 1), argv[1:]
	}
	rel, err := filepath.Rel(m.Dir, argv[0])
	if err != nil {
		t.Fatal(err)
	}
	fd := c.Open(".locks/control", unix.O_RDWR)
	if got := c.ask(fd, strings.Replace(line, "%", `"`+rel+`"`, 1)); !strings.HasPrefix(got, `{"ok":true`) {
		t.Fatalf("acquire %q: %s", argv, got)
	}
	return func() { c.MustClose(fd) }
}

// Who may write a file keeps sessions waiting as its owner does; but the owner, and
// root, can always end that lock.
func TestOwnerEndsLocksOfOthers(t *testing.T) {
	strangerMounts(t, func(t *testing.T, m *Mount) {
		alice, bob := m.ClientAs(t, ordinaryUID), m.ClientAs(t, otherUID)
		alice.OK(wire.Request{Op: "chmod", Path: m.Path("alice/f"), Mode: 0o666})
		write := wire.Request{Op: "open", Path: m.Path("alice/f"), Flags: unix.O_WRONLY}
		fb := bob.Open("alice/f", unix.O_RDONLY)
		bob.OK(flockReq(fb, unix.LOCK_EX))
		if _, err := alice.Do(write); err != syscall.EBUSY {
			t.Errorf("beside a writer's flock: %v, want EBUSY", err)
		}
		for _, end := range []struct {
			uid int
			may bool
		}{{otherUID, false}, {ordinaryUID, true}} {
			_, err := m.runAs(t, end.uid, bench.binary, "steal", "--force", m.Path("alice/f"))
			if (err == nil) != end.may {
				t.Errorf("user %d ends an active lock: %v", end.uid, err)
			}
		}
		alice.MustClose(int(alice.OK(write).N))

		m.guardAs(t, otherUID, m.Path("alice/f"))
		if _, err := m.runAs(t, 0, bench.binary, "steal", "--force", m.Path("alice/f")); err != nil {
			t.Errorf("root ends an active lock: %v", err)
		}
		alice.MustClose(int(alice.OK(write).N))

		// A request that waits for ever is ended with what it waits for.
		m.guardAs(t, otherUID, m.Path("bob/f"))
		waiter := m.ClientAs(t, otherUID)
		fd := waiter.Open(".locks/control", unix.O_RDWR)
		waiter.Write(fd, `{"op":"acquire","paths":["alice/f","bob/f"],"wait":"forever"}`+"\n")
		answer := waiter.Go(wire.Request{Op: "read", FD: fd, Len: 4096})
		eventually(t, "the request waits", func() bool { return m.waits(waiter.PID) })
		if _, err := alice.Do(write); err != syscall.EBUSY {
			t.Errorf("behind a writer who waits: %v, want EBUSY", err)
		}
		if _, err := m.runAs(t, ordinaryUID, bench.binary, "steal", "--force", m.Path("alice/f")); err != nil {
			t.Errorf("the owner turns away who waits: %v", err)
		}
		if got := string(answer.OK().Data); !strings.Contains(got, "the owner of the file, or root, has ended the wait") {
			t.Errorf("who waited is told %s", got)
		}
		alice.MustClose(int(alice.OK(write).N))
		for _, ev := range m.EventsOf("lock_stolen", "alice/f") {
			if ev.Reason != "active_lock_forced" {
				t.Errorf("the event says %q", ev.Reason)
			}
		}
	}, lockTimeout(time.Second), leftLocks())
}

// A directory with all below it is locked by its owner alone: whoever may write there
// could not keep others from it.
func TestTreeLockNeedsOwnership(t *testing.T) {
	strangerMounts(t, func(t *testing.T, m *Mount) {
		m.control.OK(wire.Request{Op: "mkdir", Path: m.Path("tmp"), Mode: 0o777})
		m.control.OK(wire.Request{Op: "chmod", Path: m.Path("tmp"), Mode: 0o1777})
		m.control.OK(wire.Request{Op: "chmod", Path: m.Dir, Mode: 0o1777})
		alice := m.ClientAs(t, ordinaryUID)
		alice.OK(wire.Request{Op: "symlink", Path: m.Path("tmp/link"), To: "nowhere"})
		for _, x := range []struct {
			may  bool
			argv []string
		}{
			{false, []string{"--tree", m.Dir}},
			{false, []string{"--tree", m.Path("tmp")}},
			{false, []string{"--tree", m.Path("alice")}},
			{true, []string{"--tree", m.Path("bob")}},
			{true, []string{"--tree", m.Path("tmp/new")}},
			{false, []string{"--mode", "shared", "--tree", m.Path("tmp")}},
		} {
			argv := append(append([]string{"guard", "--wait", "0"}, x.argv...), "--", "true")
			if _, err := m.runAs(t, otherUID, bench.binary, argv...); (err == nil) != x.may {
				t.Errorf("guard %q: %v", x.argv, err)
			}
		}
		bob := m.ClientAs(t, otherUID)
		fd := bob.Open(".locks/control", unix.O_RDWR)
		if got := bob.ask(fd, `{"op":"acquire","paths":["tmp/link"]}`); !strings.Contains(got, "permission denied") {
			t.Errorf("another's link in a sticky directory: %s", got)
		}
		bob.MustClose(fd)
	})
}
