package commit

import (
	"os"
	"testing"

	"latchfs/journal/commit/internal/disk"
)

// renameSynced lets the shadow go where its file goes.
func renameSynced(w *world, sh *Shadow, _ *disk.Version) {
	check(w.t, os.MkdirAll(w.path("e"), 0o755))
	_ = sh.Follow(SyncOptions{Dir: w.openDir("e"), DirPath: "e", Name: "f", Token: 1})
}

// The directory from which a synced file was renamed is empty at once. A recovery finds the bytes
// in the other one, where a new file appears under its new name.
func TestSyncedFollows(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		check(t, os.Mkdir(w.path("d"), 0o755))
		check(t, os.Mkdir(w.path("e"), 0o755))
		follows := syncedNew(func(w *world, sh *Shadow) {
			o := SyncOptions{Dir: w.openDir("e"), DirPath: "e", Name: "g", Token: 1, Appears: true}
			check(w.t, sh.Follow(o))
			check(w.t, sh.Follow(o))
			check(w.t, os.Remove(w.path("d")))
		})
		if !follows(w) {
			t.Fatal("the sync has failed")
		}
		recovered, _ := w.restart()
		if len(recovered.Synced) != 1 || w.read("e/g") != "new" {
			t.Errorf("recovered %+v, e/g is %q", recovered, w.read("e/g"))
		}
		w.checkNothingLeft()
	})
}
