package locksdir

import (
	"strings"
	"syscall"
	"time"

	"latchfs/fs/printable"
	"latchfs/fs/report"
)

// Rejected is what a refused, fenced or rolled-back write leaves behind.
type Rejected struct {
	// ID names the entry; IDs sort by time.
	ID   string
	Time time.Time
	// UID, GID and Mode are those of the file that the bytes were meant for.
	UID, GID uint32
	Mode     uint32
	// Size is the number of kept bytes.
	Size int64
	// Files opens what is kept.
	Files RejectedFiles
}

// RejectedFiles are the two files of an entry. Their errors are syscall.Errno.
type RejectedFiles interface {
	// Content opens the bytes.
	Content() (Content, error)
	// Meta is what is known about them, as JSON; ENOENT when nothing is.
	Meta() ([]byte, error)
}

// The names in rejected/.
const (
	rejectedDir     = "rejected"
	rejectedContent = "content"
	rejectedMeta    = "meta.json"
)

// readableBy reports whether the viewer may read the bytes, and with that see
// the entry at all.
func (r *Rejected) readableBy(v report.Viewer) bool {
	return v.May(report.RightRead, r.UID, r.GID, r.Mode)
}

func (t *Tree) rejectedEntry() Entry {
	return Entry{Name: rejectedDir, Dir: true, Mode: modeDir, Mtime: t.src.Started()}
}

// findRejected finds the entry that path leads into, and the name of the file
// in it, "" for the entry itself.
func (t *Tree) findRejected(path string, v report.Viewer) (r Rejected, file string, err error) {
	id, file, below := strings.Cut(path, "/")
	r, ok := t.src.FindRejected(id, v)
	if !ok || !r.readableBy(v) || below && file == "" {
		return Rejected{}, "", syscall.ENOENT
	}
	return r, file, nil
}

func (t *Tree) statRejected(path string, v report.Viewer) (Entry, error) {
	if path == "" {
		return t.rejectedEntry(), nil
	}
	r, file, err := t.findRejected(path, v)
	if err != nil {
		return Entry{}, err
	}
	if file == "" {
		return r.entry(), nil
	}
	return r.fileEntry(file)
}

func (r *Rejected) entry() Entry {
	return Entry{Name: r.ID, Dir: true, Mode: modeDir, UID: r.UID, GID: r.GID, Mtime: r.Time}
}

// fileEntry describes a file of the entry. Both have the permissions of the
// file that the bytes were meant for, without those to write or execute.
func (r *Rejected) fileEntry(name string) (Entry, error) {
	e := Entry{Name: name, Mode: r.Mode & modeFile, UID: r.UID, GID: r.GID, Size: r.Size, Mtime: r.Time}
	switch name {
	case rejectedContent:
		return e, nil
	case rejectedMeta:
		meta, err := r.meta()
		e.Size = int64(len(meta))
		return e, err
	default:
		return Entry{}, syscall.ENOENT
	}
}

func (r *Rejected) meta() ([]byte, error) {
	b, err := r.Files.Meta()
	if err != nil {
		return nil, err
	}
	return printable.JSON(b), nil
}

func (t *Tree) listRejected(path string, v report.Viewer) ([]Entry, error) {
	if path == "" {
		var entries []Entry
		for _, r := range t.src.Rejected(v) {
			if r.readableBy(v) {
				entries = append(entries, r.entry())
			}
		}
		return entries, nil
	}
	r, file, err := t.findRejected(path, v)
	if err != nil {
		return nil, err
	}
	if file != "" {
		if _, err = r.fileEntry(file); err == nil {
			err = syscall.ENOTDIR
		}
		return nil, err
	}
	var entries []Entry
	for _, name := range []string{rejectedContent, rejectedMeta} {
		if e, err := r.fileEntry(name); err == nil {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (t *Tree) openRejected(path string, v report.Viewer) (Content, error) {
	if path == "" {
		return nil, syscall.EISDIR
	}
	r, file, err := t.findRejected(path, v)
	if err != nil {
		return nil, err
	}
	switch file {
	case "":
		return nil, syscall.EISDIR
	case rejectedContent:
		return r.Files.Content()
	case rejectedMeta:
		meta, err := r.meta()
		if err != nil {
			return nil, err
		}
		return newText(meta), nil
	default:
		return nil, syscall.ENOENT
	}
}
