package merging

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Versions are the earlier versions that are kept; see versions.Recorder.
type Versions interface {
	// OpenState opens what the newest version of a path held that has a state.
	OpenState(path string, is history.State) (*os.File, error)
}

// Bases are what replaced versions held. Versions and Known are set before they are used.
type Bases struct {
	bases.Store
	Versions Versions         // nil: none are kept
	Known    *knowledge.Table // nil: nothing is known, and nothing merged
}

// Content is what the version of a path held that a basis speaks of, if that is still there.
func (b *Bases) Content(path string, of *knowledge.Basis) ([]byte, bool) {
	if of.Version == 0 {
		return nil, false
	}
	if data, ok := b.Store.Content(knowledge.Key(path), of); ok {
		return data, true
	}
	if b.Versions == nil || of.Stamp == (knowledge.Stamp{}) || of.Stamp.Size > merge.MaxSize {
		return nil, false
	}
	file, err := b.Versions.OpenState(path, history.State{Ino: of.Stamp.Ino, Size: of.Stamp.Size, Mtime: of.Stamp.Mtime})
	if err != nil {
		return nil, false
	}
	defer file.Close()
	data, _, err := bases.Read(int(file.Fd()))
	return data, err == nil && int64(len(data)) == of.Stamp.Size
}

// Hold prepares to keep what a file holds that is path's and about to be replaced: keep does
// that, once it is.
func (b *Bases) Hold(f File, path string, set *policy.Settings) (keep func(replaced bool)) {
	nothing := func(bool) {}
	switch {
	case b.Known == nil, f.Stat == nil, f.Stat.Mode&unix.S_IFMT != unix.S_IFREG, f.Stat.Size > merge.MaxSize,
		set.Mode != policy.Atomic, set.LostUpdate != policy.Merge:
		return nothing
	}
	key, stamp := knowledge.Key(path), bases.StampOf(f.Stat)
	number, is := b.Known.Current(key)
	if number == 0 || is != stamp {
		return nothing // nobody has read it
	}
	fd, err := commit.OpenUnnoticed(f.Dir, f.Name)
	if err != nil {
		return nothing
	}
	return func(replaced bool) {
		if !replaced {
			unix.Close(fd)
			return
		}
		b.PutFile(key, number, fd, stamp)
	}
}

// Target is a file with which a change is to be merged, as package lostupdate needs it.
type Target struct {
	File
	Bases *Bases
	// IsMounted reports whether something is mounted on the file.
	IsMounted func() bool
	// IsStaged reports whether the change belongs to a transaction.
	IsStaged func() bool
}

// KeepsInode implements lostupdate.Target.
func (t *Target) KeepsInode() bool { return t.Stat.Nlink > 1 || t.IsMounted() }

// InTransaction implements lostupdate.Target.
func (t *Target) InTransaction() bool { return t.IsStaged() }

// Stamp implements lostupdate.Target.
func (t *Target) Stamp() knowledge.Stamp { return bases.StampOf(t.Stat) }

// Base implements lostupdate.Target.
func (t *Target) Base(path string, b *knowledge.Basis) ([]byte, bool) {
	return t.Bases.Content(path, b)
}
