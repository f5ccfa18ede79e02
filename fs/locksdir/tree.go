package locksdir

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"latchfs/fs/report"
)

//go:embed readme.txt
var readme []byte

// How old a snapshot may be as long as nobody takes or releases a lock; its
// heartbeats and ages are out of date by as much. Stat takes a new one earlier
// than Open does, so that the Open after a Stat finds the Stat's.
const (
	maxAgeOpen = time.Second
	maxAgeStat = maxAgeOpen / 2
)

// Permissions at the top.
const (
	modeDir  = 0o555
	modeFile = 0o444
)

// Tree renders the virtual directory. Its methods may be called from several
// goroutines. Paths are relative to the tree's root, which is "".
type Tree struct {
	src Source

	// mu guards what follows. It is held while a snapshot is taken, so before
	// any lock inside Source, but not while one is rendered.
	mu   sync.Mutex
	snap *snapshot
	// gen is the last generation seen, and changed when it was first seen.
	gen     uint64
	changed time.Time
	// logSize is the last size seen of the audit trail, logChanged when it was
	// first seen.
	logSize    int64
	logChanged time.Time

	eventsMu     sync.Mutex     // guards what follows
	eventLogs    []eventLog     // renderings of the audit trail
	eventReaders map[uint32]int // how often which user has it open

	historyMu sync.Mutex // guards histories; held while one is rendered
	histories []*historyLog
}

// New returns the tree that shows src.
func New(src Source) *Tree {
	started := src.Started()
	return &Tree{src: src, gen: src.Generation(), changed: started, logChanged: started}
}

// Stat describes the entry at path.
func (t *Tree) Stat(path string, v report.Viewer) (Entry, error) {
	top, rest, below := strings.Cut(path, "/")
	if br, ok := findBranch(top); ok {
		return t.statBranch(br, rest, v)
	}
	switch top {
	case rejectedDir:
		return t.statRejected(rest, v)
	case historyDir:
		return t.statHistory(rest, v)
	}
	f, ok := findTopFile(top)
	switch {
	case path == "":
		return Entry{Dir: true, Mode: modeDir, Mtime: t.src.Started()}, nil
	case !ok:
		return Entry{}, syscall.ENOENT
	case below:
		return Entry{}, syscall.ENOTDIR
	}
	return t.topEntry(f, v), nil
}

func (t *Tree) statBranch(br branch, path string, v report.Viewer) (Entry, error) {
	if path == "" {
		return br.dirEntry(br.name, t.lastChange()), nil
	}
	d, group, err := br.find(t.seenBy(t.snapshot(maxAgeStat), v), path)
	if err != nil {
		return Entry{}, err
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if d != nil {
		return br.dirEntry(name, t.lastChange()), nil
	}
	return fileEntry(name, group, len(render(nil, group, v))), nil
}

func (t *Tree) topEntry(f topFile, v report.Viewer) Entry {
	content, mtime := f.open(t, v, maxAgeStat)
	return Entry{Name: f.name, Mode: modeFile, Size: content.Size(), Mtime: mtime}
}

// List describes the entries of the directory at path, sorted by name. Of the files at
// the root, which are rendered to know their size, it tells the name alone.
func (t *Tree) List(path string, v report.Viewer) ([]Entry, error) {
	if path == "" {
		return t.listTop(), nil
	}
	top, rest, _ := strings.Cut(path, "/")
	switch top {
	case rejectedDir:
		return t.listRejected(rest, v)
	case historyDir:
		return t.listHistory(rest, v)
	}
	br, ok := findBranch(top)
	if !ok {
		_, err := t.Stat(path, v)
		if err == nil {
			err = syscall.ENOTDIR
		}
		return nil, err
	}
	d, group, err := br.find(t.seenBy(t.snapshot(maxAgeStat), v), rest)
	switch {
	case err != nil:
		return nil, err
	case group != nil:
		return nil, syscall.ENOTDIR
	}
	return t.listBranch(br, d, v), nil
}

func (t *Tree) listTop() []Entry {
	var entries []Entry
	for _, br := range branches {
		entries = append(entries, br.dirEntry(br.name, t.lastChange()))
	}
	entries = append(entries, t.rejectedEntry(), t.historyEntry())
	for _, f := range topFiles {
		entries = append(entries, Entry{Name: f.name, Mode: modeFile})
	}
	return sorted(entries)
}

func (t *Tree) listBranch(br branch, d *dir, v report.Viewer) []Entry {
	entries := make([]Entry, 0, len(d.dirs)+len(d.files))
	changed := t.lastChange()
	for name := range d.dirs {
		entries = append(entries, br.dirEntry(name, changed))
	}
	var scratch []byte
	for name, group := range d.files {
		scratch = render(scratch[:0], group, v)
		entries = append(entries, fileEntry(name, group, len(scratch)))
	}
	return sorted(entries)
}

func sorted(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

// Open returns the content of the file at path.
func (t *Tree) Open(path string, v report.Viewer) (Content, error) {
	top, rest, below := strings.Cut(path, "/")
	if br, ok := findBranch(top); ok {
		d, group, err := br.find(t.seenBy(t.snapshot(maxAgeOpen), v), rest)
		switch {
		case err != nil:
			return nil, err
		case d != nil:
			return nil, syscall.EISDIR
		}
		return newText(render(nil, group, v)), nil
	}
	switch top {
	case rejectedDir:
		return t.openRejected(rest, v)
	case historyDir:
		return t.openHistory(rest, v)
	}
	f, ok := findTopFile(top)
	switch {
	case path == "":
		return nil, syscall.EISDIR
	case !ok:
		return nil, syscall.ENOENT
	case below:
		return nil, syscall.ENOTDIR
	}
	if top == eventsFile {
		return t.openEvents(v)
	}
	content, _ := f.open(t, v, maxAgeOpen)
	return content, nil
}

// Remove releases the lock whose record is at path, which is what `rm` of the
// record means. Nothing else can be removed: EPERM, or EISDIR for a directory.
func (t *Tree) Remove(path string, v report.Viewer) error {
	top, rest, _ := strings.Cut(path, "/")
	br, ok := findBranch(top)
	if !ok {
		e, err := t.Stat(path, v)
		switch {
		case err != nil:
			return err
		case e.Dir:
			return syscall.EISDIR
		}
		return syscall.EPERM
	}
	d, group, err := br.find(t.seenBy(t.snapshot(maxAgeOpen), v), rest)
	switch {
	case err != nil:
		return err
	case d != nil:
		return syscall.EISDIR
	case group[0].State == report.Waiting:
		return syscall.EPERM
	}
	// Without mu: the Source may have to wait for locks of its own. The
	// generation that the release raises is what shows it to the next reader.
	return t.src.Release(copies(group), v)
}

// copies are the records of a group, for a Source to keep.
func copies(group []*report.Record) []report.Record {
	list := make([]report.Record, len(group))
	for i, r := range group {
		list[i] = *r
	}
	return list
}

// Trim drops what is cached and too old to be used again. Without it a tree that
// was read once keeps that snapshot until it is read again; call it now and then
// where that matters.
func (t *Tree) Trim() {
	now := t.src.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.snap; s != nil && !s.fresh(s.gen, now, maxAgeOpen) {
		t.snap = nil
	}
	t.eventsMu.Lock()
	t.eventLogs = slices.DeleteFunc(t.eventLogs, func(l eventLog) bool { return now.Sub(l.made) > maxHistoryAge })
	t.eventsMu.Unlock()
	t.historyMu.Lock()
	defer t.historyMu.Unlock()
	t.histories = slices.DeleteFunc(t.histories, func(l *historyLog) bool { return now.Sub(l.taken) > maxHistoryAge })
}

// snapshot returns a snapshot whose heartbeats are at most maxAge old.
func (t *Tree) snapshot(maxAge time.Duration) *snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.snap; s != nil && s.fresh(t.src.Generation(), t.src.Now(), maxAge) {
		return s
	}
	t.snap = takeSnapshot(t.src)
	return t.snap
}

// lastChange is about when the lock table changed last: when somebody first
// looked at it afterwards.
func (t *Tree) lastChange() time.Time {
	gen, now := t.src.Generation(), t.src.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if gen != t.gen {
		t.gen, t.changed = gen, now
	}
	return t.changed
}

// lastEvent is, in the same way, when the audit trail grew to size.
func (t *Tree) lastEvent(size int64) time.Time {
	now := t.src.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if size != t.logSize {
		t.logSize, t.logChanged = size, now
	}
	return t.logChanged
}

// text is a Content that does not change.
type text struct{ *bytes.Reader }

func newText(b []byte) Content { return text{bytes.NewReader(b)} }

func (text) Close() error { return nil }

func (t text) kept() int64 { return t.Reader.Size() }

// Kept is what an open Content keeps in memory, in bytes.
func Kept(c Content) int64 {
	if k, ok := c.(interface{ kept() int64 }); ok {
		return k.kept()
	}
	return 0
}
