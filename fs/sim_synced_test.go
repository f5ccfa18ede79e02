package fs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latchfs/journal/commit"
)

// What programs may expect of fsync when the daemon dies before they close the file.

// drawSyncs adds commands that sync to the scripts of those whose daemon dies.
func (s *simScript) drawSyncs(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 8))
	if s.hazards.crashes == 0 || r.IntN(2) == 0 {
		return
	}
	for range 1 + r.IntN(3) {
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), "sync "+names[r.IntN(len(names))])
	}
}

// acknowledged notes that an fsync of a whole version has returned.
func (m *simModel) acknowledged(f *simFile) {
	m.count("sync")
	m.mu.Lock()
	defer m.mu.Unlock()
	f.syncedAt = time.Now()
	m.synced = append(m.synced, f)
}

// forgetSynced notes that the last close has returned, which says what became of the
// version.
func (m *simModel) forgetSynced(f *simFile) {
	m.hasLive()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = slices.DeleteFunc(m.synced, func(o *simFile) bool { return o == f })
}

// mustAppear reports whether a file that was open when the daemon died is there afterwards,
// as it was synced: a new one. That a close was refused for a fault of the disk may not have
// been told.
func (m *simModel) mustAppear(f *simFile) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f.created && f.synced && f.txn == nil && m.judges().on(f.path) == 0 && !f.isRobbed() && len(m.faults) == 0
}

// checkSynced looks, when the next daemon has started, whether what was synced is there: in
// the file, or aside, or in the history if somebody has replaced it.
func (m *simModel) checkSynced() {
	live := m.hasLive()
	m.mu.Lock()
	synced := m.synced
	m.synced = nil
	m.mu.Unlock()
	if live { // others may have written over it
		return
	}
	for _, f := range synced {
		switch data, state := m.w.find(strings.Join(versionText(f.version), "")); {
		case data:
			m.count("synced, and in a file after the death of the daemon")
		case state && (!f.created || f.closing != 0 || m.judges().on(f.path) != 0):
			m.count("synced, and kept after the death of the daemon")
		default:
			m.w.failf("an fsync of %s, version %s, was acknowledged, and after the death of the daemon that is gone", f.path, f.version)
		}
	}
}

// find looks for a text in the files of the data directory, and in those that the daemon
// keeps.
func (w *simWorld) find(text string) (data, state bool) {
	w.keeps.Lock() // a daemon that dies meanwhile would take the descriptors for its own
	defer w.keeps.Unlock()
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the daemon goes on
			return nil
		}
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), commit.ReservedPrefix) {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if strings.Contains(string(b), text) {
			kept := strings.HasPrefix(path, filepath.Join(w.dir, commit.StateDirName)+"/")
			data, state = data || !kept, state || kept
		}
		return err
	})
	if err != nil {
		w.failf("the data cannot be read: %v", err)
	}
	return data, state
}

// The daemon dies at each step of an fsync, and after it.
func TestDaemonDiesAfterASync(t *testing.T) {
	for _, at := range []string{"begin", "writeback", "writejournal", "link", "fsync"} {
		for _, path := range []string{"a", "b"} {
			t.Run(at+" "+path, func(t *testing.T) {
				w := inTurns(t, []simProgram{simProgramOf("ann", "sync "+path), simProgramOf("bob", "cat "+path)},
					"ann until FSYNC "+path, "crash at "+at, "ann to the end", "bob to the end")
				if len(w.buried) != 1 {
					t.Fatal("the daemon has not died")
				}
			})
		}
	}
	for _, path := range []string{"a", "b"} {
		t.Run("closing "+path, func(t *testing.T) {
			w := inTurns(t, []simProgram{simProgramOf("ann", "sync "+path), simProgramOf("bob", "cat "+path)},
				"ann until FLUSH "+path, "crash", "ann to the end", "bob to the end")
			how := map[string]string{"a": "synced, and kept after the death of the daemon", "b": "synced, and in a file after the death of the daemon"}[path]
			if w.model.done[how] != 1 {
				t.Errorf("what happened: %v", w.model.done)
			}
		})
	}
}

// hasLive reports whether a new file has stayed open for so long after its fsync that it
// has appeared: it is live (DESIGN §4.1), and so is whatever anybody writes to it from then
// on. Nothing more is asked of such a run than that the daemon goes on.
func (m *simModel) hasLive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := slices.ContainsFunc(m.synced, func(f *simFile) bool { return f.created && time.Since(f.syncedAt) >= syncedWait })
	if live && !m.live {
		m.done["a synced file appears before its close"]++
	}
	m.live = m.live || live
	return m.live
}
