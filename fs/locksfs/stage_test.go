package locksfs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
	"latchfs/fs/locksdir"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

const (
	root  = uint64(1) << 62
	limit = 64 << 10 // of what a user makes the daemon keep
)

var started = time.Unix(1000, 0)

// by is who asks.
type by struct {
	uid, gid uint32
	pid      int32
	asked    *int // how often it was looked at
}

func (b by) UID() uint32 { return b.uid }
func (b by) GID() uint32 { return b.gid }

func (b by) look() {
	if b.asked != nil {
		*b.asked++
	}
}

func (b by) Owner() lockmgr.Owner {
	b.look()
	return lockmgr.Owner{PID: b.pid, Start: 1}
}

func (b by) Viewer() report.Viewer {
	b.look()
	return report.Viewer{UID: b.uid, PID: b.pid}
}

// ann has the files. bob sees none but those of his own.
var (
	ann = by{uid: 1, gid: 10, pid: 100}
	bob = by{uid: 2, gid: 20, pid: 200}
)

// stage is a tree that a test makes up, and the conversations that it was asked for.
type stage struct {
	t       testing.TB
	fs      *FS
	book    *account.Book
	files   map[string]string // by their path; a directory has a slash at its end
	own     map[string]uint32 // whose a file is: nobody else sees it
	broken  map[string]error  // what is answered of a path
	real    *locksdir.Tree    // for files that have to be kept in memory
	removed []string
	open    int // contents that are open
	trims   int
	talks   []*talk
	refused unix.Errno // of the next conversation
	begun   []string
}

func newStage(t testing.TB) *stage {
	s := &stage{
		t: t, files: map[string]string{"d/": "", "d/f": "file", "d/own": "own", "g": "0123456789", "events.jsonl": "one\n"},
		own: map[string]uint32{"d/own": 1}, broken: map[string]error{}, real: locksdir.New(still{}),
		book: account.New(account.Limits{User: limit, Total: 10 * limit}, func(uint32) bool { return false }),
	}
	s.fs = New(Config{Root: root, Tree: s, Book: s.book, Started: started, Converse: s.converse})
	return s
}

// still is a source of which only files are asked for that are always the same.
type still struct{ locksdir.Source }

func (still) Started() time.Time { return started }
func (still) Generation() uint64 { return 1 }

// find is what a viewer finds at a path.
func (s *stage) find(path string, v report.Viewer) (content string, dir bool, err error) {
	if err := s.broken[path]; err != nil {
		return "", false, err
	}
	if u, ok := s.own[path]; ok && u != v.UID {
		return "", false, unix.ENOENT
	}
	if content, ok := s.files[path]; ok {
		return content, false, nil
	}
	if _, ok := s.files[path+"/"]; ok || path == "" {
		return "", true, nil
	}
	return "", false, fmt.Errorf("%s: %w", path, unix.ENOENT)
}

func entry(path, content string, dir bool) locksdir.Entry {
	return locksdir.Entry{Name: path[strings.LastIndexByte(path, '/')+1:], Dir: dir, Size: int64(len(content)), Mode: 0o444, Mtime: started}
}

// Stat implements Tree.
func (s *stage) Stat(path string, v report.Viewer) (locksdir.Entry, error) {
	if path == "README" {
		return s.real.Stat(path, v)
	}
	content, dir, err := s.find(path, v)
	return entry(path, content, dir), err
}

// StatOpen implements Tree.
func (s *stage) StatOpen(path string, c locksdir.Content) locksdir.Entry {
	e := entry(path, "", false)
	e.Size, e.Mtime = c.Size(), time.Unix(2000, 0)
	return e
}

// List implements Tree.
func (s *stage) List(path string, v report.Viewer) (list []locksdir.Entry, err error) {
	if _, dir, err := s.find(path, v); err != nil || !dir {
		return nil, fmt.Errorf("%q: %w", path, unix.ENOTDIR)
	}
	for _, p := range []string{"d", "d/f", "d/own", "events.jsonl", "g"} {
		parent, name := "", p
		if i := strings.LastIndexByte(p, '/'); i >= 0 {
			parent, name = p[:i], p[i+1:]
		}
		if content, dir, err := s.find(p, v); err == nil && parent == path {
			list = append(list, entry(name, content, dir))
		}
	}
	return list, nil
}

// Open implements Tree.
func (s *stage) Open(path string, v report.Viewer) (locksdir.Content, error) {
	if path == "README" {
		return s.real.Open(path, v)
	}
	content, dir, err := s.find(path, v)
	if err != nil {
		return nil, err
	}
	if dir {
		return nil, unix.EISDIR
	}
	s.open++
	return &view{bytes.NewReader([]byte(content)), s}, nil
}

type view struct {
	*bytes.Reader
	s *stage
}

func (w *view) Close() error { w.s.open--; return nil }

// Remove implements Tree.
func (s *stage) Remove(path string, v report.Viewer) error {
	if err := s.broken[path]; err != nil {
		return err
	}
	s.removed = append(s.removed, fmt.Sprint(path, " by ", v.UID))
	return nil
}

// Trim implements Tree.
func (s *stage) Trim() { s.trims++ }

// talk is a conversation that says what it was asked.
type talk struct {
	opener by
	said   []string
}

func (s *stage) converse(node uint64, by_ By) (Talk, unix.Errno) {
	s.begun = append(s.begun, fmt.Sprintf("%d by %d", node-root, by_.UID()))
	if s.refused != 0 {
		return nil, s.refused
	}
	tk := &talk{opener: by_.(by)}
	s.talks = append(s.talks, tk)
	return tk, 0
}

func (tk *talk) note(format string, args ...any) {
	tk.said = append(tk.said, fmt.Sprintf(format, args...))
}

func (tk *talk) IsOpeners(uid, gid uint32) bool { return uid == tk.opener.uid && gid == tk.opener.gid }

func (tk *talk) Write(b By, data [][]byte) (int, unix.Errno) {
	all := bytes.Join(data, nil)
	tk.note("%d writes %s", b.(by).pid, all)
	return len(all), unix.EDEADLK
}

func (tk *talk) Read(b By, nonblock bool, cancel <-chan struct{}, buf []byte) (int, unix.Errno) {
	tk.note("%d reads %d, nonblock %v, cancel %v", b.(by).pid, len(buf), nonblock, cancel != nil)
	return copy(buf, "reply"), unix.EINTR
}

func (tk *talk) Flush(b By) { tk.note("%d flushes", b.(by).pid) }
func (tk *talk) Close()     { tk.note("closed") }

// Shorthands that fail the test.

func (s *stage) is(what string, got, want unix.Errno) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// node looks a path up.
func (s *stage) node(path string, b By) uint64 {
	s.t.Helper()
	id := root
	for name := range strings.SplitSeq(path, "/") {
		var e unix.Errno
		if id, _, e = s.fs.Lookup(id, name, b); e != 0 {
			s.t.Fatalf("lookup of %q: %v", path, e)
		}
	}
	return id
}

// opens opens a path to read it.
func (s *stage) opens(path string, b By) (id, fh uint64) {
	s.t.Helper()
	id = s.node(path, b)
	fh, _, e := s.fs.Open(id, unix.O_RDONLY, b)
	s.is("open of "+path, e, 0)
	return id, fh
}
