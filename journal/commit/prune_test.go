package commit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/fsck"
	"latchfs/journal/commit/internal/rejected"
)

// entryAt puts an entry into the rejected store as Reject did at some time.
func (w *world) entryAt(at time.Time, size int) string {
	w.t.Helper()
	id := fmt.Sprintf("%s-%08x", at.UTC().Format(rejected.TimeFormat), size)
	w.write(".latchfs/rejected/"+id+"/content", strings.Repeat("x", size))
	w.write(".latchfs/rejected/"+id+"/meta.json", "{}")
	return id
}

func (w *world) rejectedIDs() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.path(".latchfs/rejected"))
	check(w.t, err)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

func (w *world) bytesOf(ids ...string) (sum int64) {
	w.t.Helper()
	for _, id := range ids {
		for _, name := range []string{"", "/content", "/meta.json"} {
			sum += w.stat(".latchfs/rejected/"+id+name).Blocks * 512
		}
	}
	return sum
}

const unlimited = 1 << 60

func TestPruneByAge(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		now := time.Now()
		old, older := w.entryAt(now.Add(-2*time.Hour), 1), w.entryAt(now.Add(-3*time.Hour), 2)
		fresh := w.entryAt(now.Add(-time.Hour+time.Second), 3)
		taken := w.bytesOf(old, older)
		got, err := w.s.PruneRejected(now, unlimited, time.Hour)
		check(t, err)
		if diff := cmp.Diff(rejected.Pruned{IDs: []string{older, old}, Bytes: taken, Aged: 2}, got); diff != "" {
			t.Error(diff)
		}
		if left := w.rejectedIDs(); !slices.Equal(left, []string{fresh}) {
			t.Errorf("left are %q", left)
		}
		got, err = w.s.PruneRejected(now.Add(time.Hour), unlimited, 0)
		check(t, err)
		if len(got.IDs) > 0 || len(w.rejectedIDs()) != 1 {
			t.Errorf("without a limit %+v were removed", got)
		}
	})
}

// What is over the limit goes oldest first, and nothing before it is a minute old.
func TestPruneByBytes(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		now := time.Now()
		var ids []string
		for i, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, 90 * time.Second, 30 * time.Second} {
			ids = append(ids, w.entryAt(now.Add(-age), 100_000+i))
		}
		unix.Sync() // so that the blocks are counted
		got, err := w.s.PruneRejected(now, w.bytesOf(ids[1:]...), 0)
		check(t, err)
		if !slices.Equal(got.IDs, ids[:1]) || got.Excess != 1 || !got.Again.IsZero() {
			t.Errorf("the first round removed %+v", got)
		}
		got, err = w.s.PruneRejected(now, 1, 0)
		check(t, err)
		again := got.Again.Sub(now).Round(time.Second)
		if !slices.Equal(got.IDs, ids[1:3]) || again != 30*time.Second {
			t.Errorf("the second round removed %+v, again in %v", got, again)
		}
		got, err = w.s.PruneRejected(now.Add(31*time.Second), 1, 0)
		check(t, err)
		if !slices.Equal(got.IDs, ids[3:]) || len(w.rejectedIDs()) > 0 {
			t.Errorf("the last round removed %+v", got)
		}
	})
}

// Entries that are made while the store is in use are counted, and so are those
// that a clock set back has in the future.
func TestPruneNewEntries(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		ahead := w.entryAt(time.Now().Add(48*time.Hour), 7)
		w.write("f", "old")
		_, err := w.s.PruneRejected(time.Now(), unlimited, 0)
		check(t, err)
		sh, _ := w.shadowOf("f")
		id, err := sh.Reject(nil)
		check(t, errors.Join(err, sh.Discard()))
		select {
		case <-w.s.Kept():
		default:
			t.Error("nobody was told of the new entry")
		}
		got, err := w.s.PruneRejected(time.Now().Add(2*time.Minute), 0, 0)
		check(t, err)
		if !slices.Equal(got.IDs, []string{id, ahead}) {
			t.Errorf("removed %+v", got)
		}
	})
}

// What is not of our making stays, and stops nothing.
func TestPruneLeavesForeign(t *testing.T) {
	w := newWorld(t, t.TempDir())
	old := w.entryAt(time.Now().Add(-time.Hour), 1)
	busy := w.entryAt(time.Now().Add(-2*time.Hour), 2)
	w.write(".latchfs/rejected/"+busy+"/note", "mine")
	for _, name := range []string{"notes", "20200101T000000.000000000-0000000x", "20200101T000000.0-00000000"} {
		w.write(".latchfs/rejected/"+name+"/content", "mine")
	}
	w.write(".latchfs/rejected/20200101T000000.000000000-00000000", "a file")
	got, err := w.s.PruneRejected(time.Now(), 0, time.Second)
	if !errors.Is(err, unix.ENOTEMPTY) || !slices.Equal(got.IDs, []string{old}) {
		t.Errorf("removed %+v, %v", got, err)
	}
	if left := w.rejectedIDs(); len(left) != 5 {
		t.Errorf("left are %q", left)
	}
	w.restart() // which must not fail for it
	if left := w.rejectedIDs(); len(left) != 5 || w.read(".latchfs/rejected/"+busy+"/note") != "mine" {
		t.Errorf("left after a start are %q", left)
	}
}

// After a crash at any step of a removal the next start finishes it, and it is
// told of once.
func TestPruneCrash(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, t.TempDir())
		w.entryAt(time.Now().Add(-2*time.Hour), 1)
		second := w.entryAt(time.Now().Add(-time.Hour), 2)
		reached := w.failAt(n, true)
		before, _ := w.s.PruneRejected(time.Now(), 0, 0)
		if !reached() {
			if n != 7 {
				t.Errorf("%d crash points of two removals, want 6: %q", n-1, w.steps)
			}
			return
		}
		w.stop()
		for _, found := range w.check().Findings {
			if found.Kind != fsck.FindHalfRejected && found.Kind != journal.FindUnclean {
				t.Errorf("crash at step %d: a check finds %+v", n, found)
			}
		}
		w.start()
		_, err := w.s.Recover()
		check(t, err)
		left := w.rejectedIDs()
		for _, id := range left {
			if _, err := os.Stat(w.path(".latchfs/rejected/" + id + "/content")); err != nil {
				t.Errorf("crash at step %d: %v", n, err)
			}
		}
		after, err := w.s.PruneRejected(time.Now(), 0, 0)
		check(t, err)
		if len(w.rejectedIDs()) > 0 || len(before.IDs)+len(after.IDs) != 2 || !slices.Contains(append(before.IDs, after.IDs...), second) {
			t.Errorf("crash at step %d: told of %+v before and %+v after", n, before, after)
		}
		if halved := n%3 != 1; after.Halved > 1 || halved != (after.Halved == 1) {
			t.Errorf("crash at step %d: %d half removed entries were finished", n, after.Halved)
		}
	}
}

// On a full disk the ballast goes first, then the oldest entries, and no more
// than helps.
func TestRejectDropsOldest(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.restart()
		w.write("f", "old")
		now := time.Now()
		ids := []string{w.entryAt(now.Add(-2*time.Second), 1), w.entryAt(now.Add(-time.Second), 2), w.entryAt(now, 3)}
		refusals := rejected.BallastCount + 2
		w.s.disk.Fault = func(step string) error {
			if step == "ballast" || step == "mkdir" && refusals > 0 {
				refusals--
				return unix.ENOSPC
			}
			return nil
		}
		sh, _ := w.shadowOf("f")
		id, err := sh.Reject(nil)
		check(t, errors.Join(err, sh.Discard()))
		if left := w.rejectedIDs(); !slices.Equal(left, []string{ids[2], id}) || ballast(t, w) > 0 {
			t.Errorf("left are %q and %d files of ballast", left, ballast(t, w))
		}
		<-w.s.Kept()
		got, err := w.s.PruneRejected(now, unlimited, 0)
		check(t, err)
		if !slices.Equal(got.IDs, ids[:2]) || got.NoRoom != 2 {
			t.Errorf("told of %+v", got)
		}
	})
}

// Where nothing helps not everything is given up.
func TestRejectDropsNotAll(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("f", "old")
	for i := range 2 * rejected.MaxDrops {
		w.entryAt(time.Now(), i)
	}
	w.s.disk.Fault = func(step string) error {
		if step == "mkdir" || step == "ballast" {
			return unix.EDQUOT
		}
		return nil
	}
	sh, _ := w.shadowOf("f")
	if id, err := sh.Reject(nil); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("kept as %q: %v", id, err)
	}
	check(t, sh.Discard())
	if left := len(w.rejectedIDs()); left != rejected.MaxDrops {
		t.Errorf("%d entries are left", left)
	}
	if found, _ := filepath.Glob(w.path(".latchfs/rejected/.*")); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}

// Whoever has most loses first, and what one user has kept within a minute is
// bounded.
func TestPruneByUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to be several users takes root")
	}
	const alice, bob, limit = 61001, 61002, 1 << 20
	w := newWorld(t, t.TempDir())
	now := time.Now()
	entry := func(uid int, age time.Duration, size int) string {
		id := w.entryAt(now.Add(-age), size)
		check(t, os.Chown(w.path(".latchfs/rejected/"+id+"/content"), uid, uid))
		return id
	}
	old, fresh := entry(alice, time.Hour, 100_000), entry(alice, 10*time.Second, 100_001)
	var bobs []string
	for i := range 20 {
		bobs = append(bobs, entry(bob, 30*time.Second-time.Duration(i)*time.Second, 100_100+i))
	}
	got, err := w.s.PruneRejected(now, limit, 0)
	check(t, err)
	left := w.rejectedIDs()
	if !slices.Contains(left, old) || !slices.Contains(left, fresh) {
		t.Errorf("the other user has lost what is within the share: left are %q", left)
	}
	if taken := w.bytesOf(left...); taken > limit+300_000 {
		t.Errorf("%d bytes are left, %+v", taken, got)
	}
	if !slices.Contains(left, bobs[19]) {
		t.Error("what was kept last is gone")
	}
	// One large entry that has just been kept stays, and costs nobody else.
	big := entry(bob, 0, 3*limit)
	_, err = w.s.PruneRejected(now, limit, 0)
	check(t, err)
	if left := w.rejectedIDs(); !slices.Contains(left, big) || !slices.Contains(left, old) {
		t.Errorf("left are %q", left)
	}
}

// What was refused gives way on a full disk when nothing else does: bytes that there was no
// room for, and old ones. What was refused lately, for another reason, stays.
func TestRejectedGivesWay(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.restart()
		now := time.Now()
		old := w.entryAt(now.Add(-2*time.Minute), 1)
		w.write("f", "old")
		var ids []string
		for _, errno := range []string{"ENOSPC", "EBUSY", "EDQUOT"} {
			sh, _ := w.shadowOf("f")
			id, err := sh.Reject(map[string]any{"errno": errno})
			check(t, errors.Join(err, sh.Discard()))
			ids = append(ids, id)
		}
		var left [][]string
		w.s.disk.Fault = func(step string) error {
			if step != "exchange" {
				return nil
			}
			left = append(left, w.rejectedIDs())
			return unix.ENOSPC
		}
		sh, base := w.shadowOf("f")
		overwriteFD(t, sh.FD(), "new")
		if _, err := sh.Publish(w.publishOptions("f", base)); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("published: %v", err)
		}
		w.s.disk.Fault = nil
		check(t, sh.Discard())
		want := [][]string{{old, ids[0], ids[1], ids[2]}, {ids[0], ids[1], ids[2]}, {ids[1], ids[2]}, {ids[1]}}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Error(diff)
		}
		got, err := w.s.PruneRejected(now, unlimited, 0)
		check(t, err)
		if !slices.Equal(got.IDs, []string{old, ids[0], ids[2]}) || got.NoRoom != 3 {
			t.Errorf("told of %+v", got)
		}
	})
}
