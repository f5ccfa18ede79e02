package commit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"latchfs/journal/commit/internal/disk"
)

// Shadows that got a name in one directory, for they were synced, and become files in
// another one: a new file, and one in the place of an old one. In the first directory there
// are files with the names that they get.
var (
	renamedBefore = []string{"d/f=old", "d/msg=theirs", "d/x=theirs", "e/", "e/x=gone"}
	renamedAfter  = []string{"d/f=old", "d/msg=theirs", "d/x=theirs", "e/", "e/msg=new", "e/x=new"}
)

func renamedWorld(t *testing.T, at string) *world {
	w := scenarioWorld(t, at, scenario{})
	w.write("d/msg", "theirs")
	w.write("d/x", "theirs")
	w.write("e/x", "gone")
	return w
}

// stageRenamed prepares that transaction.
func (w *world) stageRenamed(txn *Txn) (shadows []*Shadow, err error) {
	for _, name := range []string{"e/msg", "e/x"} {
		var sh *Shadow
		if sh, err = w.s.NewShadow(w.shadowOptions("d/new", nil)); err != nil {
			return shadows, err
		}
		shadows = append(shadows, sh)
		check(w.t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		if !w.syncAs(sh, false) {
			return shadows, errors.New("the sync has failed")
		}
		o := w.publishOptions(name, nil)
		if name == "e/x" {
			o.Base, o.Keep.ID = w.version(name), contentID(name)
		}
		if err = txn.Put(sh, o); err != nil {
			return shadows, err
		}
	}
	return shadows, nil
}

func (w *world) transactRenamed() error { return w.transactAs(w.stageRenamed) }

// checkRenamed compares the tree with what it was and what it is to be.
func (w *world) checkRenamed(acked bool) {
	w.t.Helper()
	got := w.tree()
	if !slices.Equal(got, renamedAfter) && (acked || !slices.Equal(got, renamedBefore)) {
		w.t.Errorf("acknowledged %v, and the tree is %s", acked, strings.Join(got, ", "))
	}
}

func TestTxnOfRenamedFilesCrashAtEveryStep(t *testing.T) {
	eachTxnStopOf(t, renamedWorld, (*world).transactRenamed, true, func(t *testing.T, w *world, err error) {
		w.restart()
		w.checkRenamed(err == nil)
	})
}

func TestTxnOfRenamedFilesErrorAtEveryStep(t *testing.T) {
	eachTxnStopOf(t, renamedWorld, (*world).transactRenamed, false, func(t *testing.T, w *world, err error) {
		w.s.disk.Fault = nil
		want := fmt.Sprint(renamedBefore)
		if err == nil || errors.Is(err, ErrNotDurable) || errors.Is(err, ErrRedoPending) {
			want = fmt.Sprint(renamedAfter)
		}
		_, again := w.s.Recover()
		check(t, again)
		if got := fmt.Sprint(w.tree()); got != want {
			t.Errorf("%v, and after Recover the tree is %s", err, got)
		}
	})
}

// The bytes that were synced survive a crash of the daemon before the decision.
func TestTxnOfRenamedFilesKeepsWhatWasSynced(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("e/x", "gone")
		w.write("d/f", "old")
		shadows, err := w.stageRenamed(w.s.NewTxn(7))
		check(t, err)
		for _, sh := range shadows {
			w.leftOpen(sh)
		}
		recovered, _ := w.restart()
		if got := w.keptContents(); len(recovered.Synced) != 2 || !slices.Equal(got, []string{"new", "new"}) {
			t.Errorf("recovered %+v, and %q is kept", recovered, got)
		}
		w.checkNothingLeft()
	})
}
