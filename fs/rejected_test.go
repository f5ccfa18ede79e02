package fs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/report"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// keptBytes is a filesystem that is not mounted, with a data directory whose
// entries everybody may walk to.
func keptBytes(t testing.TB) (*FS, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Log: quiet{}, Policy: policy.Default()}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	f := newFS(o)
	if err := f.openData(); err != nil {
		t.Fatal(err)
	}
	if err := f.openState(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.recorder.closeHistory()
		f.disk.state.Close()
		unix.Close(f.disk.rootfd)
	})
	return f, dir
}

// quiet is a Logger.
type quiet struct{}

func (quiet) Debugf(string, ...any) {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// reject keeps content as the refused bytes of the file at path.
func reject(t testing.TB, f *FS, path, content string, mode uint32) string {
	t.Helper()
	sh, err := f.disk.store.NewShadow(commit.ShadowOptions{Dir: f.disk.rootfd, Name: "x", Base: -1, Mode: mode, UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(sh.FD(), []byte(content)); err != nil {
		t.Fatal(err)
	}
	id, err := sh.Reject(map[string]any{"path": path, "reason": "a test", "dirs": [][3]uint32{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Discard(); err != nil {
		t.Fatal(err)
	}
	return id
}

// somebody is neither the owner of a test's files nor in their group.
func somebody() report.Viewer { return report.Viewer{UID: uint32(os.Getuid()) + 4321} }

func owner() report.Viewer {
	return report.Viewer{UID: uint32(os.Getuid()), GIDs: []uint32{uint32(os.Getgid())}}
}

func TestRejected(t *testing.T) {
	f, _ := keptBytes(t)
	if list := f.view.source.Rejected(owner()); len(list) != 0 {
		t.Fatalf("a new store lists %+v", list)
	}
	ids := []string{reject(t, f, "a", "first", 0o640), reject(t, f, "b", strings.Repeat("second", 1000), 0o600)}
	var got []string
	for _, r := range f.view.source.Rejected(owner()) {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("listed %q, want %q", got, ids)
	}
	r, ok := f.view.source.FindRejected(ids[0], owner())
	if !ok || r.Mode != 0o640 || r.UID != uint32(os.Getuid()) || r.Size != 5 || r.Time.IsZero() {
		t.Fatalf("found %+v, %v", r, ok)
	}
	b, err := r.Files.Meta()
	var meta struct{ Path, Reason string }
	if err != nil || json.Unmarshal(b, &meta) != nil || meta.Path != "a" || meta.Reason != "a test" {
		t.Errorf("the meta is %s, %v", b, err)
	}
}

// Others know of kept bytes only as long as they may read the file itself.
func TestRejectedOfPrivateFiles(t *testing.T) {
	f, dir := keptBytes(t)
	for _, d := range []string{"open", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"f", "open/f", "open/private", "closed/f"} {
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{ // whatever the umask is
		"open": 0o755, "closed": 0o700, "f": 0o644, "open/f": 0o644, "open/private": 0o600,
	} {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("open", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"f": true, "open/f": true, "open/private": false, "closed/f": false,
		"link/f": false, "link": false, "open": false, "open/gone": false, "gone/f": false, "": false,
	} {
		id := reject(t, f, path, "x", 0o644)
		if _, ok := f.view.source.FindRejected(id, owner()); !ok {
			t.Errorf("%q: the owner does not find it", path)
		}
		if _, ok := f.view.source.FindRejected(id, somebody()); ok != want {
			t.Errorf("%q: somebody else finds it: %v, want %v", path, ok, want)
		}
	}
	if list := f.view.source.Rejected(somebody()); len(list) != 2 {
		t.Errorf("somebody else sees %d entries", len(list))
	}
}

// What a full disk left without meta.json is its owner's alone.
func TestRejectedWithoutMeta(t *testing.T) {
	f, dir := keptBytes(t)
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	id := reject(t, f, "f", "x", 0o644)
	if err := os.Remove(filepath.Join(dir, commit.StateDirName, commit.RejectedDir, id, commit.RejectedMeta)); err != nil {
		t.Fatal(err)
	}
	r, ok := f.view.source.FindRejected(id, owner())
	if !ok || r.Mode != 0o600 || r.Time.IsZero() {
		t.Errorf("found %+v, %v", r, ok)
	}
	if _, err := r.Files.Meta(); err != unix.ENOENT {
		t.Errorf("the meta: %v", err)
	}
	if _, ok := f.view.source.FindRejected(id, somebody()); ok {
		t.Error("somebody else finds it")
	}
}
