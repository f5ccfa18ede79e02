package locksdir

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"latchfs/fs/printable"
	"latchfs/fs/report"
)

// Version is one version of a path, as the history has it.
type Version struct {
	// Path is relative to the root of the mount, raw bytes.
	Path   string
	Number uint64 // from 1 upwards, for each path
	Time   time.Time
	Base   uint64 // the version that it was made from, 0 if none
	// Event is "commit", "delete", "found" or "rename-away".
	Event, Operation        string
	Actor, Program, Session string
	PID                     int32
	UID                     uint32 // who made it
	Token                   uint64
	Bytes                   int64
	From, To                string // the other path of a rename
	// Kept: the content can be read. Current: it is the path's last version.
	Kept, Current bool
	// FileUID, FileGID and Mode are the file's, Mtime its last change.
	FileUID, FileGID, Mode uint32
	Mtime                  time.Time
	// Content opens the bytes. Its error is a syscall.Errno.
	Content func() (Content, error)
}

// Versions is what the tree shows of the history. Its methods answer with what
// the viewer may know of.
type Versions interface {
	// HistoryGeneration rises whenever History would answer differently.
	HistoryGeneration() uint64
	// History are all versions of all paths, oldest first. What happens while they are
	// looked at may be among them or not.
	History(report.Viewer) iter.Seq[Version]
	// HistoryOf lists the versions of one path that are kept, oldest first.
	HistoryOf(path string, v report.Viewer) []Version
	// HistoryIn lists the names in the directory dir, "" for the root, that lead
	// to a version that is kept: paths themselves, and directories above them.
	HistoryIn(dir string, v report.Viewer) []string
	// HistoryLeadsOn reports whether HistoryIn has a name to list.
	HistoryLeadsOn(dir string, v report.Viewer) bool
}

const (
	historyDir  = "history"
	historyFile = "history.jsonl"
)

func (t *Tree) historyEntry() Entry {
	return Entry{Name: historyDir, Dir: true, Mode: modeDir, Mtime: t.src.Started()}
}

// place is what a path below history/ leads to: a directory with the kept
// versions of the path; or a version.
type place struct {
	kept    []Version
	version *Version
}

// findHistory finds out what path leads to. A name that leads on is a directory,
// even if it is a number; the version that it hides is shown as N~. The names in a
// directory are not listed for that: whoever walks through it asks for each of them.
func (t *Tree) findHistory(path string, v report.Viewer) (place, error) {
	if path == "" {
		return place{}, nil
	}
	kept := keptOnly(t.src.HistoryOf(path, v))
	if len(kept) > 0 || t.src.HistoryLeadsOn(path, v) {
		return place{kept: kept}, nil
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return place{}, syscall.ENOENT
	}
	number, err := strconv.ParseUint(strings.TrimSuffix(path[i+1:], "~"), 10, 64)
	if err != nil {
		return place{}, syscall.ENOENT
	}
	var names []string
	if n := strconv.FormatUint(number, 10); t.leadsOn(path[:i+1]+n, v) {
		names = []string{n}
	}
	for _, k := range keptOnly(t.src.HistoryOf(path[:i], v)) {
		if k.Number == number && k.name(names) == path[i+1:] {
			return place{version: &k}, nil
		}
	}
	return place{}, syscall.ENOENT
}

// leadsOn reports whether a path is a directory.
func (t *Tree) leadsOn(path string, v report.Viewer) bool {
	return len(keptOnly(t.src.HistoryOf(path, v))) > 0 || t.src.HistoryLeadsOn(path, v)
}

func keptOnly(list []Version) []Version {
	return slices.DeleteFunc(list, func(k Version) bool { return !k.Kept })
}

// name is what the version is called in the directory of its path, beside names.
func (k *Version) name(names []string) string {
	n := strconv.FormatUint(k.Number, 10)
	if slices.Contains(names, n) {
		n += "~"
	}
	return n
}

// entry describes the file of a version: the permissions are those of the file,
// without those to write or execute.
func (k *Version) entry(name string) Entry {
	// An owner could give itself the right to read; whoever may not know of the version is not shown it.
	return Entry{Name: name, Mode: k.Mode&modeFile | 0o400, UID: k.FileUID, GID: k.FileGID, Size: k.Bytes, Mtime: k.Mtime}
}

func (t *Tree) statHistory(path string, v report.Viewer) (Entry, error) {
	if path == "" {
		return t.historyEntry(), nil
	}
	p, err := t.findHistory(path, v)
	name := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case err != nil:
		return Entry{}, err
	case p.version != nil:
		return p.version.entry(name), nil
	}
	return t.dirOf(name, p), nil
}

func (t *Tree) dirOf(name string, p place) Entry {
	e := Entry{Name: name, Dir: true, Mode: modeDir, Mtime: t.src.Started()}
	for _, k := range p.kept {
		if k.Time.After(e.Mtime) {
			e.Mtime = k.Time
		}
	}
	return e
}

func (t *Tree) listHistory(path string, v report.Viewer) ([]Entry, error) {
	p, err := t.findHistory(path, v)
	switch {
	case err != nil:
		return nil, err
	case p.version != nil:
		return nil, syscall.ENOTDIR
	}
	names := t.src.HistoryIn(path, v)
	entries := make([]Entry, 0, len(names)+len(p.kept))
	for _, name := range names {
		entries = append(entries, Entry{Name: name, Dir: true, Mode: modeDir, Mtime: t.src.Started()})
	}
	for i := range p.kept {
		entries = append(entries, p.kept[i].entry(p.kept[i].name(names)))
	}
	return sorted(entries), nil
}

func (t *Tree) openHistory(path string, v report.Viewer) (Content, error) {
	p, err := t.findHistory(path, v)
	switch {
	case err != nil:
		return nil, err
	case p.version == nil:
		return nil, syscall.EISDIR
	}
	return p.version.Content()
}

// appendJSON appends the version's line of history.jsonl.
func (k *Version) appendJSON(b []byte) []byte {
	w := printable.AppendTo(b, 0)
	w.Open("", '{')
	w.Raw("path", k.Path)
	w.Uint("version", k.Number)
	w.String("time", k.Time.UTC().Format(time.RFC3339Nano))
	w.Uint("base", k.Base)
	w.String("event", k.Event)
	if k.Operation != "" {
		w.String("operation", k.Operation)
	}
	if k.Actor != "" {
		w.String("actor", k.Actor)
	}
	w.String("program", k.Program)
	w.Int("pid", int64(k.PID))
	w.Uint("uid", uint64(k.UID))
	if k.Session != "" {
		w.String("session", k.Session)
	}
	w.Uint("token", k.Token)
	w.Int("bytes", k.Bytes)
	if k.Mode != 0 {
		w.String("mode", fmt.Sprintf("%04o", k.Mode)) // its file shows it without those to write
	}
	w.Bool("kept", k.Kept)
	w.Bool("current", k.Current)
	if k.From != "" {
		w.Raw("from", k.From)
	}
	if k.To != "" {
		w.Raw("to", k.To)
	}
	w.Close('}')
	return append(w.Bytes(), '\n')
}
