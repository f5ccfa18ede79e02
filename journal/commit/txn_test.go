package commit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/history"
)

// txnBefore and txnAfter are the tree of a transaction's test, as tree prints it.
var (
	txnBefore = []string{"d/f=old", "d/g=gone", "d/h2=old", "d/h=old", "e/", "e/x=gone"}
	txnAfter  = []string{"d/f=new", "d/h2=new", "d/h=new", "d/link -> f", "d/m/", "d/m/k/", "d/m/k/n=new", "d/n=new"}
)

func txnWorld(t *testing.T, at string) *world {
	w := scenarioWorld(t, at, scenario{})
	w.write("d/g", "gone")
	w.write("d/h", "old")
	check(t, os.Link(w.path("d/h"), w.path("d/h2")))
	w.write("e/x", "gone")
	return w
}

// tree lists the data root, sorted.
func (w *world) tree() []string {
	w.t.Helper()
	var list []string
	check(w.t, filepath.WalkDir(w.root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.root, path)
		switch {
		case err != nil:
			return err
		case d.Name() == disk.StateDirName:
			return filepath.SkipDir
		case rel == "." || rel == "d":
		case d.IsDir():
			list = append(list, rel+"/")
		case d.Type() == os.ModeSymlink:
			to, _ := os.Readlink(path)
			list = append(list, rel+" -> "+to)
		default:
			list = append(list, rel+"="+w.read(rel))
		}
		return nil
	}))
	slices.Sort(list)
	return list
}

// transact changes a bit of everything. It returns how that ended.
func (w *world) transact() error { return w.transactAs(w.stage) }

func (w *world) transactAs(stage func(txn *Txn) ([]*Shadow, error)) error {
	txn := w.s.NewTxn(7)
	shadows, err := stage(txn)
	defer func() {
		for _, sh := range shadows {
			sh.Discard()
		}
	}()
	if err == nil {
		err = txn.Commit()
		if err == nil || errors.Is(err, ErrRedoPending) || errors.Is(err, ErrNotDurable) {
			return err
		}
	}
	return errors.Join(err, txn.Rollback())
}

func (w *world) stage(txn *Txn) (shadows []*Shadow, err error) {
	put := func(name string, base *os.File) *Shadow {
		if err != nil {
			return nil
		}
		var sh *Shadow
		if sh, err = w.s.NewShadow(w.shadowOptions(name, base)); err != nil {
			return nil
		}
		shadows = append(shadows, sh)
		err = disk.WriteAll(sh.FD(), []byte("new"), 0)
		return sh
	}
	make := func(name string, do func(dir int, name string) error) {
		if err == nil {
			err = txn.Make(MakeOptions{w.openDir(filepath.Dir(name)), filepath.Dir(name), filepath.Base(name)}, do)
		}
	}
	mkdir := func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) }
	do := func(fn func() error) {
		if err == nil {
			err = fn()
		}
	}
	make("d/m", mkdir)
	make("d/m/k", mkdir)
	make("d/link", func(dir int, name string) error { return unix.Symlinkat("f", dir, name) })
	f := put("d/f", openFile(w.t, w.path("d/f"), os.O_RDONLY))
	do(func() error {
		o := w.publishOptions("d/f", w.version("d/f"))
		o.Keep.ID = contentID("d/f")
		return txn.Put(f, o)
	})
	n := put("d/n", nil)
	do(func() error { return txn.Put(n, w.publishOptions("d/n", nil)) })
	deep := put("d/m/k/n", nil)
	do(func() error { return txn.Put(deep, w.publishOptions("d/m/k/n", nil)) })
	h := put("d/h", openFile(w.t, w.path("d/h"), os.O_RDONLY))
	do(func() error {
		target := openFile(w.t, w.path("d/h"), os.O_RDWR)
		return txn.PutInPlace(h, int(target.Fd()), w.publishOptions("d/h", w.version("d/h")))
	})
	remove := func(name string, isDir bool) func() error {
		return func() error {
			o := RemoveOptions{w.openDir(filepath.Dir(name)), filepath.Dir(name), filepath.Base(name), *w.version(name), isDir, keep.Keep{}}
			if !isDir {
				o.Keep.ID = contentID(name)
			}
			_, err := txn.Remove(o)
			return err
		}
	}
	do(remove("e", true))
	do(remove("d/g", false))
	do(remove("e/x", false))
	return shadows, err
}

// eachTxnStop runs transact and stops it before its first change to the disk, its
// second, and so on.
func eachTxnStop(t *testing.T, crash bool, verify func(t *testing.T, w *world, err error)) {
	eachTxnStopOf(t, txnWorld, (*world).transact, crash, verify)
}

// eachTxnStopOf does so with another transaction.
func eachTxnStopOf(
	t *testing.T, begin func(*testing.T, string) *world, transact func(*world) error,
	crash bool, verify func(t *testing.T, w *world, err error),
) {
	for name, at := range filesystems {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				w := begin(t, at)
				w.s.rejects.NoBallast()
				reached := w.failAt(n, crash)
				err := transact(w)
				stopped := reached()
				t.Logf("stop %d: %q: %v", n, w.steps, err)
				verify(t, w, err)
				w.checkNothingLeft()
				os.RemoveAll(w.root)
				if t.Failed() || !stopped {
					if n < 25 && !t.Failed() {
						t.Errorf("only %d steps", n)
					}
					return
				}
			}
		})
	}
}

// checkTree compares the tree with what it was and what it is to be.
func (w *world) checkTree(acked bool) {
	w.t.Helper()
	got := w.tree()
	if !slices.Equal(got, txnAfter) && (acked || !slices.Equal(got, txnBefore)) {
		w.t.Errorf("acknowledged %v, and the tree is %s", acked, strings.Join(got, ", "))
	}
}

// checkAllOrNone does so, too, and looks at the history.
func (w *world) checkAllOrNone(acked bool) {
	w.t.Helper()
	w.checkTree(acked)
	got := w.tree()
	// What was replaced or removed is in the history, and there alone.
	w.tidyHistory()
	for name, content := range map[string]string{"d/f": "old", "d/g": "gone", "e/x": "gone"} {
		b, err := os.ReadFile(w.path(disk.StateDirName + "/" + history.ContentPath(contentID(name))))
		if happened := slices.Equal(got, txnAfter); happened != (string(b) == content) {
			w.t.Errorf("acknowledged %v, happened %v, and of %s %q is kept: %v", acked, happened, name, b, err)
		}
	}
}

// contentID stands for the content of a file in the history.
func contentID(name string) string { return fmt.Sprintf("%x%x", name, make([]byte, 16))[:32] }

func TestTxnCrashAtEveryStep(t *testing.T) {
	eachTxnStop(t, true, func(t *testing.T, w *world, err error) {
		w.restart()
		w.checkAllOrNone(err == nil)
	})
}

func TestTxnCrashWhileRecovering(t *testing.T) {
	eachTxnStop(t, true, func(t *testing.T, w *world, err error) {
		for n := 1; ; n++ {
			w.start()
			w.s.rejects.NoBallast()
			reached := w.failAt(n, true)
			w.s.Recover()
			if !reached() {
				break
			}
		}
		w.restart()
		w.checkAllOrNone(err == nil)
	})
}

// One system call fails and the daemon lives on: nothing has happened, or all
// has, or all will by Recover.
func TestTxnErrorAtEveryStep(t *testing.T) {
	eachTxnStop(t, false, func(t *testing.T, w *world, err error) {
		w.s.disk.Fault = nil
		want := fmt.Sprint(txnBefore)
		if err == nil || errors.Is(err, ErrNotDurable) || errors.Is(err, ErrRedoPending) {
			want = fmt.Sprint(txnAfter)
		}
		if got := fmt.Sprint(w.tree()); got != want && !errors.Is(err, ErrRedoPending) && !strings.Contains(fmt.Sprint(err), "unlink") {
			t.Errorf("%v, and the tree is %s", err, got)
		}
		if errors.Is(err, ErrRedoPending) {
			if !w.s.HalfDone() || !w.s.AwaitsTxn("d/f") || w.s.AwaitsTxn("d/other") {
				t.Errorf("%v, and half done %v, awaited at d/f %v, at d/other %v", err, w.s.HalfDone(), w.s.AwaitsTxn("d/f"), w.s.AwaitsTxn("d/other"))
			}
		} else if w.s.AwaitsTxn("d/f") {
			t.Errorf("%v, and d/f awaits a transaction", err)
		}
		_, again := w.s.Recover()
		check(t, again)
		if w.s.HalfDone() {
			t.Errorf("%v, and after Recover something is half done", err)
		}
		if got := fmt.Sprint(w.tree()); got != want {
			t.Errorf("%v, and after Recover the tree is %s", err, got)
		}
	})
}

// What a transaction was to replace or remove may have changed around it.
func TestTxnConflicts(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		base := w.version("f")
		sh, _ := w.shadowOf("f")
		defer sh.Discard()
		w.write("f", "other content")
		txn := w.s.NewTxn(1)
		var conflict *ConflictError
		if err := txn.Put(sh, w.publishOptions("f", base)); !errors.As(err, &conflict) {
			t.Errorf("Put: %v", err)
		}
		o := RemoveOptions{Dir: w.openDir("."), DirPath: ".", Name: "f", Base: *base}
		if _, err := txn.Remove(o); !errors.As(err, &conflict) || conflict.Found == nil {
			t.Errorf("Remove: %v", err)
		}
		o.Name = "none"
		if _, err := txn.Remove(o); !errors.As(err, &conflict) || conflict.Found != nil {
			t.Errorf("Remove of nothing: %v", err)
		}
		m := MakeOptions{Dir: w.openDir("."), DirPath: ".", Name: "f"}
		err := txn.Make(m, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) })
		if !errors.Is(err, unix.EEXIST) {
			t.Errorf("Make: %v", err)
		}
		check(t, txn.Rollback())
		if got := w.read("f"); got != "other content" {
			t.Errorf("f holds %q", got)
		}
		sh.Discard()
		w.checkNothingLeft()
	})
}

func TestUnmake(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		txn := w.s.NewTxn(1)
		mkdir := func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) }
		check(t, txn.Make(MakeOptions{w.openDir("."), ".", "m"}, mkdir))
		w.write("m/x", "")
		if err := txn.Unmake(w.openDir("."), "m"); !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("a directory with a file: %v", err)
		}
		check(t, os.Remove(w.path("m/x")))
		check(t, txn.Unmake(w.openDir("."), "m"))
		if err := txn.Unmake(w.openDir("."), "m"); !errors.Is(err, ErrConflict) {
			t.Errorf("twice: %v", err)
		}
		check(t, txn.Commit())
		if tree := w.tree(); len(tree) > 0 {
			t.Errorf("left: %q", tree)
		}
		w.checkNothingLeft()
	})
}
