package disclosure

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/fs/report"
	"latchfs/journal/history"
)

// The files of these tests are the tester's. Others are made up: a user of none of its
// groups, and one whose group they have.
var (
	uid, gid = uint32(os.Geteuid()), uint32(os.Getegid())

	owner    = report.Viewer{UID: uid, GIDs: []uint32{gid + 9}, AllGroups: true}
	stranger = report.Viewer{UID: uid + 7, GIDs: []uint32{gid + 7}, AllGroups: true}
	mate     = report.Viewer{UID: uid + 8, GIDs: []uint32{gid}, AllGroups: true}
	admin    = report.Viewer{UID: uid + 9, Privileged: true}
)

// stage is a directory with a history that a test makes up.
type stage struct {
	t         testing.TB
	dir       string
	versions  []history.Version // oldest first
	broken    error             // with which contents are opened
	asked     int               // how often for the newest of a path
	askedKept int               // how often for the kept versions of one
}

// newStage makes a directory with files and, with a slash at their end, directories.
func newStage(t *testing.T, modes map[string]os.FileMode) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir()}
	s.must(os.Chmod(s.dir, 0o755))
	for p := range modes {
		at := filepath.Join(s.dir, p)
		s.must(os.MkdirAll(filepath.Dir(at), 0o755))
		if strings.HasSuffix(p, "/") {
			s.must(os.MkdirAll(at, 0o755))
		} else {
			s.must(os.WriteFile(at, []byte("x"), 0o600))
		}
	}
	for p, mode := range modes {
		s.must(os.Chmod(filepath.Join(s.dir, p), mode))
	}
	t.Cleanup(func() {
		_ = filepath.Walk(s.dir, func(p string, _ os.FileInfo, _ error) error { return os.Chmod(p, 0o700) })
	})
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// open opens a directory of the stage.
func (s *stage) open(dir string) int {
	s.t.Helper()
	fd, err := unix.Open(filepath.Join(s.dir, dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	s.must(err)
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func (s *stage) shows() Versions {
	return Versions{Root: reach.Root{FD: s.open("")}, Store: s}
}

// kept makes a version that is kept, of a file that everybody may read and could reach.
func (s *stage) kept(path string, change ...func(*history.Version)) {
	v := history.Version{
		Path: path, Event: history.Commit, Number: uint64(len(s.of(path)) + 1), Kept: true,
		Rights: history.Rights{UID: uid, GID: gid, Mode: 0o644}, Reach: history.Reach{Known: true},
	}
	for _, c := range change {
		c(&v)
	}
	s.versions = append(s.versions, v)
}

func (s *stage) of(path string) (list []history.Version) {
	for _, v := range s.versions {
		if v.Path == path {
			list = append(list, v)
		}
	}
	return list
}

// Generation implements Store.
func (s *stage) Generation() uint64 { return uint64(len(s.versions)) }

// All implements Store.
func (s *stage) All() iter.Seq[history.Version] { return slices.Values(s.versions) }

// KeptOf implements Store.
func (s *stage) KeptOf(path string) []history.Version {
	s.askedKept++
	return slices.DeleteFunc(s.of(path), func(v history.Version) bool { return !v.Kept })
}

// NewestOf implements Store.
func (s *stage) NewestOf(path string) iter.Seq[history.Version] {
	s.asked++
	list := s.of(path)
	slices.Reverse(list)
	return slices.Values(list)
}

// Below implements Store.
func (s *stage) Below(dir string) (paths []string) {
	for _, v := range s.versions {
		if dir == "" || strings.HasPrefix(v.Path, dir+"/") {
			paths = append(paths, v.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// OtherNames implements Store: all of these are names of each other.
func (s *stage) OtherNames(path string, _ uint64) []string {
	return slices.DeleteFunc(s.Below(""), func(p string) bool { return p == path })
}

// OpenContent implements Store: what a version holds is its path and number.
func (s *stage) OpenContent(path string, number uint64) (*os.File, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	fd, err := unix.MemfdCreate("version", unix.MFD_CLOEXEC)
	s.must(err)
	f := os.NewFile(uintptr(fd), "version")
	_, err = fmt.Fprintf(f, "%s %d", path, number)
	return f, err
}

// What a test says of a version.

func rights(u, g, mode uint32) func(*history.Version) {
	return func(v *history.Version) { v.Rights = history.Rights{UID: u, GID: g, Mode: mode} }
}

func withACL(v *history.Version) { v.Rights.ACL = true }

func notKept(v *history.Version) { v.Kept, v.Reach = false, history.Reach{} }

func gates(list ...history.Gate) func(*history.Version) {
	return func(v *history.Version) { v.Reach = history.Reach{Known: true, Gates: list} }
}

func unknownReach(v *history.Version) { v.Reach = history.Reach{} }

func event(e history.Event) func(*history.Version) {
	return func(v *history.Version) {
		v.Event = e
		if e == history.Delete || e == history.RenameAway {
			notKept(v)
			v.Rights = history.Rights{}
		}
	}
}

func by(u uint32, actor string) func(*history.Version) {
	return func(v *history.Version) { v.UID, v.Actor, v.Time = u, actor, time.Unix(1000, 0) }
}
