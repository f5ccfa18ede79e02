package commit

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"latchfs/journal/history"

	"golang.org/x/sys/unix"
)

const (
	alice = 61001
	bob   = 61002
)

// asOwner runs a call as a user who has no capability but CAP_DAC_OVERRIDE, in a thread
// that ends with it.
func asOwner(uid, gid uint32) Runner {
	return func(do func() error) error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
			if uid != 0 {
				h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
				caps := [2]unix.CapUserData{}
				if err := unix.Capget(&h, &caps[0]); err != nil {
					done <- err
					return
				}
				caps[0].Effective |= 1 << unix.CAP_DAC_OVERRIDE
				if err := unix.Capset(&h, &caps[0]); err != nil {
					done <- err
					return
				}
			}
			done <- do()
		}()
		return <-done
	}
}

// stickyWorld is a world whose directory "d" is sticky, with a file of bob's and one of
// alice's there.
func stickyWorld(t *testing.T, w *world) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	w.s.SetOwners(asOwner)
	for name, uid := range map[string]int{"d/bobs": bob, "d/alices": alice} {
		w.write(name, name)
		check(t, os.Chown(w.path(name), uid, uid))
	}
	check(t, os.Chmod(w.path("d"), os.ModeSticky|0o777))
}

// swapAt lets two names change places right before a step.
func (w *world) swapAt(step string) {
	w.s.disk.Fault = func(now string) error {
		if now != step {
			return nil
		}
		w.s.disk.Fault = nil
		return unix.Renameat2(unix.AT_FDCWD, w.path("d/bobs"), unix.AT_FDCWD, w.path("d/alices"), unix.RENAME_EXCHANGE)
	}
}

// checkAlices looks for alice's file under the name that was bob's.
func (w *world) checkAlices(t *testing.T) {
	t.Helper()
	if got, err := os.ReadFile(w.path("d/bobs")); err != nil || string(got) != "d/alices" {
		t.Errorf("the name that alice's file has got holds %q, %v", got, err)
	}
	if got, err := os.ReadFile(w.path("d/alices")); err != nil || string(got) != "d/bobs" {
		t.Errorf("the name that bob's file has got holds %q, %v", got, err)
	}
}

// bobsShadow is a new version of bob's file, with options to publish it.
func (w *world) bobsShadow(t *testing.T) (*Shadow, PublishOptions) {
	t.Helper()
	base := openFile(t, w.path("d/bobs"), os.O_RDONLY)
	v := w.version("d/bobs")
	dir := w.openDir("d")
	sh, err := w.s.NewShadow(ShadowOptions{Dir: dir, DirPath: "d", Name: "bobs", Base: int(base.Fd())})
	check(t, err)
	t.Cleanup(func() { check(t, sh.Discard()) })
	_, err = unix.Pwrite(sh.FD(), []byte("bob's new"), 0)
	check(t, err)
	return sh, PublishOptions{Dir: dir, DirPath: "d", Name: "bobs", Base: v}
}

// A version is not published over another user's file that has got the name since the
// base was compared, not even for a moment: the kernel refuses the exchange.
func TestPublishTakesNoForeignName(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		stickyWorld(t, w)
		sh, o := w.bobsShadow(t)
		w.swapAt("exchange")
		if _, err := sh.Publish(o); !errors.Is(err, ErrConflict) || !errors.Is(err, unix.EPERM) {
			t.Errorf("published with %v", err)
		}
		w.checkAlices(t)
	})
}

// The same goes for the parts of a transaction, whose bytes are kept aside then, and for
// what recovery finishes.
func TestTxnTakesNoForeignName(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		stickyWorld(t, w)
		sh, o := w.bobsShadow(t)
		txn := w.s.NewTxn(1)
		check(t, txn.Put(sh, o))
		w.swapAt("rename")
		if err := txn.Commit(); !errors.Is(err, ErrRedoPending) {
			t.Errorf("committed with %v", err)
		}
		r, err := w.s.Recover()
		check(t, err)
		if len(r.Salvaged) != 1 || len(r.Redone) != 0 {
			t.Errorf("recovery has done %+v", r)
		}
		w.checkAlices(t)
	})
}

// A transaction is refused as a whole if it finds out before it is decided.
func TestTxnLooksAtNamesAgain(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		stickyWorld(t, w)
		sh, o := w.bobsShadow(t)
		txn := w.s.NewTxn(1)
		check(t, txn.Put(sh, o))
		w.swapAt("syncdir")
		if err := txn.Commit(); !errors.Is(err, ErrConflict) {
			t.Errorf("committed with %v", err)
		}
		check(t, txn.Rollback())
		w.checkAlices(t)
	})
}

// A transaction removes no file of another user's that has got a name.
func TestTxnRemovesNoForeignName(t *testing.T) {
	for _, keep := range []Keep{{}, {ID: theContent}} {
		eachFS(t, func(t *testing.T, w *world) {
			stickyWorld(t, w)
			txn := w.s.NewTxn(1)
			o := RemoveOptions{Dir: w.openDir("d"), DirPath: "d", Name: "bobs", Base: *w.version("d/bobs"), Keep: keep}
			removal, err := txn.Remove(o)
			check(t, err)
			step := "unlink"
			if keep.ID != "" {
				step = "keep"
			}
			w.swapAt(step)
			if err := txn.Commit(); !errors.Is(err, ErrRedoPending) || removal.Kept() {
				t.Errorf("committed with %v", err)
			}
			_, err = w.s.Recover()
			check(t, err)
			w.checkAlices(t)
		})
	}
}

// Where anybody who may write to a directory takes names away, a file that has got a name
// for a moment does not become an earlier version of the one that had it.
func TestHistoryKeepsNoOtherFile(t *testing.T) {
	keepers := map[string]func(w *world, dir int, k Keep) (bool, error){
		"remove": func(w *world, dir int, k Keep) (bool, error) { return w.s.Remove(nil, dir, "bobs", k) },
		"rename over it": func(w *world, dir int, k Keep) (bool, error) {
			w.write("d/new", "new")
			return w.s.RenameOver(RenameOptions{FromDir: dir, From: "new", ToDir: dir, To: "bobs", Keep: k})
		},
	}
	for name, keeper := range keepers {
		for _, wantCopy := range []bool{false, true} {
			eachFS(t, func(t *testing.T, w *world) {
				w.write("d/bobs", "bob's")
				w.write("d/alices", "secret")
				v := w.version("d/bobs")
				check(t, unix.Renameat2(unix.AT_FDCWD, w.path("d/bobs"), unix.AT_FDCWD, w.path("d/alices"), unix.RENAME_EXCHANGE))
				kept, err := keeper(w, w.openDir("d"), Keep{ID: theContent, Copy: wantCopy, Ino: v.Ino})
				check(t, err)
				if kept {
					t.Errorf("%s: another file was kept", name)
				}
				if _, err := os.Lstat(w.path(StateDirName + "/" + history.ContentPath(theContent))); err == nil {
					t.Errorf("%s: its content is in the history", name)
				}
			})
		}
	}
}
