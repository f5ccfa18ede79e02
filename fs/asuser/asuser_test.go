package asuser

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const someGroup = 61500

var some = Identity{61001, 61002}

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func owner(t *testing.T, path string) Identity {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return Identity{st.Uid, st.Gid}
}

// What is made belongs to the user, also where the user might not make it, and what
// is made beside it at the same time belongs to the daemon.
func TestDo(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir() // root's, 0700 above
	self := Identity{uint32(os.Geteuid()), uint32(os.Getegid())}
	makers := map[string]func(path string) error{
		"dir":     func(p string) error { return unix.Mkdir(p, 0o700) },
		"node":    func(p string) error { return unix.Mknod(p, unix.S_IFREG|0o4600, 0) },
		"symlink": func(p string) error { return unix.Symlink("x", p) },
	}
	var wg sync.WaitGroup
	for i := range 50 {
		for kind, make := range makers {
			who := Identity{some.UID + uint32(i%3), some.GID}
			theirs, ours := filepath.Join(dir, fmt.Sprint(kind, i)), filepath.Join(dir, fmt.Sprint(kind, i, "-ours"))
			wg.Go(func() {
				if err := who.Do(func() error { return make(theirs) }); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := make(ours); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for i := range 50 {
		for kind := range makers {
			path := filepath.Join(dir, fmt.Sprint(kind, i))
			if got, want := owner(t, path), (Identity{some.UID + uint32(i%3), some.GID}); got != want {
				t.Errorf("%s is of %v, not of %v", path, got, want)
			}
			if got := owner(t, path+"-ours"); got != self {
				t.Errorf("%s is of %v", path+"-ours", got)
			}
		}
	}
	checkThreads(t)
}

// One operation within another is its own user's, and leaves the other to its user; also
// where the outer one has fewer capabilities.
func TestWithin(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	other := Identity{some.UID + 1, some.GID + 1}
	err := some.Judged(nil, func() error {
		inner := other.Do(func() error { return unix.Mkdir(filepath.Join(dir, "inner"), 0o700) })
		if unix.Access(dir, unix.W_OK) != nil || unix.Mkdir(filepath.Join(dir, "outer"), 0o700) != unix.EACCES {
			return errors.New("the outer operation is not the user's any more")
		}
		return inner
	})
	if err != nil {
		t.Error(err)
	}
	if got := owner(t, filepath.Join(dir, "inner")); got != other {
		t.Errorf("what the inner operation made is of %v", got)
	}
	checkThreads(t)
}

// An operation that panics leaves the thread as it was.
func TestPanics(t *testing.T) {
	needsRoot(t)
	func() {
		defer func() { _ = recover() }()
		_ = some.Do(func() error { panic("in an operation") })
	}()
	checkThreads(t)
}

// Less takes capabilities away, also from root, for as long as it lasts.
func TestLess(t *testing.T) {
	needsRoot(t)
	for _, who := range []Identity{{}, Nobody} {
		err := who.Less(func() error {
			now, err := readCapabilities()
			if err == nil && now[0].Effective&(1<<unix.CAP_FSETID|1<<unix.CAP_SYS_RESOURCE) != 0 {
				err = fmt.Errorf("capabilities %#x", now[0].Effective)
			}
			return err
		}, unix.CAP_FSETID, unix.CAP_SYS_RESOURCE)
		if err != nil {
			t.Errorf("%v: %v", who, err)
		}
	}
	checkThreads(t)
}

// checkThreads looks for a thread whose credentials are not the daemon's.
func checkThreads(t *testing.T) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		var now []string
		for line := range strings.Lines(string(b)) {
			for _, field := range []string{"Uid:", "Gid:", "Groups:", "CapEff:"} {
				if strings.HasPrefix(line, field) {
					now = append(now, line)
				}
			}
		}
		switch got := strings.Join(now, ""); {
		case want == "":
			want = got
		case got != want:
			t.Errorf("a thread has kept other credentials:\n%sinstead of\n%s", got, want)
		}
	}
}

// The user's own rights decide where they are to be judged: as owner, by a group, by
// an ACL, and nothing of the daemon's.
func TestJudged(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	may := func(groups ...uint32) error {
		return some.Judged(groups, func() error { return unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) })
	}
	if err := may(); err != unix.EACCES {
		t.Errorf("root's file: %v", err)
	}
	if err := os.Chown(path, 0, someGroup); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if err := may(); err != unix.EACCES {
		t.Errorf("without the group: %v", err)
	}
	if err := may(1, someGroup); err != nil {
		t.Errorf("with the group: %v", err)
	}
	// user::rw-, user:61001:rw-, group::---, mask::rw-, other::---
	acl := []byte{2, 0, 0, 0,
		1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
		2, 0, 6, 0, 0x49, 0xee, 0, 0,
		4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
		0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
		0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	switch err := unix.Setxattr(path, "system.posix_acl_access", acl, 0); err {
	case nil:
		if err := may(); err != nil {
			t.Errorf("with an ACL: %v", err)
		}
	case unix.EOPNOTSUPP:
	default:
		t.Fatal(err)
	}
	if err := os.Chown(path, int(some.UID), 0); err != nil {
		t.Fatal(err)
	}
	if err := may(); err != nil {
		t.Errorf("the owner: %v", err)
	}
	checkThreads(t)
}

func TestErrorsPass(t *testing.T) {
	needsRoot(t)
	if err := some.Do(func() error { return unix.ENOSPC }); err != unix.ENOSPC {
		t.Error(err)
	}
}

// An id that does not exist for the kernel is not silently taken for the daemon's.
func TestImpossibleIdentity(t *testing.T) {
	needsRoot(t)
	ran := false
	err := Identity{^uint32(0) - 1, 0}.Do(func() error { ran = true; return nil })
	if err != nil || !ran {
		t.Errorf("the largest id: %v", err)
	}
	checkThreads(t)
}

func BenchmarkDo(b *testing.B) {
	needsRoot(b)
	for b.Loop() {
		if err := some.Do(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJudged(b *testing.B) {
	needsRoot(b)
	for b.Loop() {
		if err := some.Judged([]uint32{1, 2}, func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMkdir(b *testing.B) {
	needsRoot(b)
	for _, how := range []string{"own", "given", "asUser"} {
		b.Run(how, func(b *testing.B) {
			dir := b.TempDir()
			for i := 0; b.Loop(); i++ {
				path := filepath.Join(dir, fmt.Sprint(i))
				var err error
				switch how {
				case "own":
					err = unix.Mkdir(path, 0o755)
				case "given":
					if err = unix.Mkdir(path, 0o755); err == nil {
						err = unix.Lchown(path, int(some.UID), int(some.GID))
					}
				default:
					err = some.Do(func() error { return unix.Mkdir(path, 0o755) })
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
