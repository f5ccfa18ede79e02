package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/report"
)

// A save that replaces the file, and of which the disk may not know, is explained to its
// program: the close has failed, and the new version is there.
func TestWhyOfASaveThatIsNotDurable(t *testing.T) {
	r := newRequests(t)
	r.f.disk.store.SetFault(func(step string) error {
		if step == "syncdir" {
			return unix.EIO
		}
		return nil
	})
	if err := os.WriteFile(filepath.Join(r.data, "f"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := r.lookup("f")
	fh, e := r.open(id, unix.O_WRONLY|unix.O_TRUNC)
	if e != 0 {
		t.Fatal(e)
	}
	r.write(id, fh, 0, "new")
	owner := r.f.handles.handleOf(fh).sess.who.Load().Owner()
	r.closes(id, fh)
	r.release(id, fh)
	if got, err := os.ReadFile(filepath.Join(r.data, "f")); err != nil || string(got) != "new" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	v := report.Viewer{UID: uint32(os.Getuid()), PID: owner.PID, Lineage: []report.Process{{PID: owner.PID, Start: owner.Start}}}
	told := r.f.reports.refused.For(v, nil, func(string) bool { return true })
	if len(told) != 1 || told[0].Errno != "EIO" || !strings.Contains(told[0].Reason, "the new version is there") {
		t.Errorf("the program is told %+v", told)
	}
}
