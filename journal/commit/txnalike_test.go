package commit

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory is like another if all its attributes are the same, and nothing of the trial is
// left.
func TestMakesAlike(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		check(t, os.Mkdir(w.path("d"), 0o755))
		txn := w.s.NewTxn(7)
		for what, c := range map[string]struct {
			change func(path string) error
			mode   uint32
			alike  bool
		}{
			"the same":     {func(string) error { return nil }, 0o755, true},
			"another mode": {func(string) error { return nil }, 0o700, false},
			"setgid":       {func(path string) error { return os.Chmod(path, 0o755|os.ModeSetgid) }, 0o755, false},
			"an attribute": {func(path string) error { return unix.Setxattr(path, "user.a", []byte("x"), 0) }, 0o755, false},
			"gone":         {os.Remove, 0o755, false},
			"a file":       {func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o755)) }, 0o755, false},
		} {
			check(t, os.Mkdir(w.path("d/was"), 0o755))
			check(t, c.change(w.path("d/was")))
			before := w.tree()
			o := MakeOptions{w.openDir("d"), "d", "was"}
			alike, err := txn.MakesAlike(o, func(dir int, name string) error {
				return errors.Join(unix.Mkdirat(dir, name, c.mode), unix.Fchmodat(dir, name, c.mode, 0))
			})
			if err != nil || alike != c.alike {
				t.Errorf("%s: %v, %v", what, alike, err)
			}
			if got := w.tree(); !slices.Equal(got, before) {
				t.Errorf("%s: the tree is %q, and was %q", what, got, before)
			}
			w.checkNothingLeft()
			check(t, os.RemoveAll(w.path("d/was")))
		}
		_, err := txn.MakesAlike(MakeOptions{w.openDir("d"), "d", "was"}, func(int, string) error { return unix.EDQUOT })
		if !errors.Is(err, unix.EDQUOT) {
			t.Errorf("what cannot be made: %v", err)
		}
		_, err = w.s.Recover()
		check(t, err)
		w.checkNothingLeft()
	})
}
