package content

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// stamp is the n-th content of a shadow.
func stamp(n int64) Stamp { return Stamp{Size: 3, Mtime: unix.Timespec{Sec: n}} }

func TestStamp(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd := int(file.Fd())
	write := func(text string, sec int64) Stamp {
		t.Helper()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		ts := []unix.Timespec{{Sec: 1}, {Sec: sec, Nsec: 7}}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, file.Name(), ts, 0); err != nil {
			t.Fatal(err)
		}
		return Look(fd)
	}
	if got, want := write("abc", 5), (Stamp{Size: 3, Mtime: unix.Timespec{Sec: 5, Nsec: 7}}); got != want || got.IsZero() {
		t.Errorf("%+v, want %+v", got, want)
	}
	seen := Look(fd)
	if err := file.Chmod(0o600); err != nil || Look(fd) != seen {
		t.Errorf("chmod makes another content: %v", err)
	}
	if write("", 6) == seen {
		t.Error("written at another time, and the same content")
	}
	if write("d", 5) == seen {
		t.Error("longer, and the same content")
	}
	if Look(-1) != (Stamp{}) || !Look(-1).IsZero() {
		t.Error("what cannot be seen has a content")
	}
}

// A second fsync counts if something was written between the two.
func TestSync(t *testing.T) {
	var s Saved
	if s.WasSynced() || s.IsSynced(stamp(1)) || s.WantsDisk(false) {
		t.Errorf("before any fsync: %+v", s)
	}
	for i, c := range []struct {
		at    int64
		again bool
	}{{1, false}, {1, false}, {2, true}, {2, false}, {1, true}} {
		if again := s.Sync(stamp(c.at)); again != c.again {
			t.Errorf("fsync %d: again %v", i, again)
		}
		if !s.WasSynced() || !s.IsSynced(stamp(c.at)) || s.IsSynced(stamp(3)) {
			t.Errorf("fsync %d: %+v", i, s)
		}
	}
}

func TestPublish(t *testing.T) {
	var s Saved
	if s.IsPublished() || !s.Published().IsZero() {
		t.Errorf("before: %+v", s)
	}
	s.Publish(stamp(2))
	if !s.IsPublished() || s.Published() != stamp(2) || s.PublishedSynced() || s.WasSynced() {
		t.Errorf("published: %+v", s)
	}
	s.Sync(stamp(1))
	if s.PublishedSynced() {
		t.Error("it was synced before the last write")
	}
	s.Sync(stamp(2))
	if !s.PublishedSynced() || s.Published() != stamp(2) {
		t.Error("it was not synced as it is")
	}
}

// Who opens the file so that each write is on disk wants that of the commit, whoever else has
// it open; who has synced it, if the journal does not see to it.
func TestWantsDisk(t *testing.T) {
	var s Saved
	s.Opened(false)
	if s.WantsDisk(false) || s.WantsDisk(true) {
		t.Error("nobody has asked for it")
	}
	s.Sync(stamp(1))
	if !s.WantsDisk(false) || s.WantsDisk(true) {
		t.Errorf("synced: %v, and if it is secured %v", s.WantsDisk(false), s.WantsDisk(true))
	}
	s.Opened(true)
	s.Opened(false)
	if !s.WantsDisk(false) || !s.WantsDisk(true) {
		t.Errorf("opened so: %v, and if it is secured %v", s.WantsDisk(false), s.WantsDisk(true))
	}
}

func TestRecord(t *testing.T) {
	var s Saved
	if s.Sync(stamp(1)); s.IsRecorded() {
		t.Error("the journal's record is on disk before anybody says so")
	}
	if s.Record(true); !s.IsRecorded() {
		t.Error("it is not on disk")
	}
	if s.Record(false); s.IsRecorded() {
		t.Error("another one is")
	}
}
