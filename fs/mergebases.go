package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// baseContent is what the version held that the basis speaks of.
func (f *FS) baseContent(path string, b *knowledge.Basis) ([]byte, bool) {
	if b.Version == 0 {
		return nil, false
	}
	if data, ok := f.bases.Content(knowledge.Key(path), b); ok {
		return data, true
	}
	if b.Stamp == (knowledge.Stamp{}) || b.Stamp.Size > merge.MaxSize {
		return nil, false
	}
	file, err := f.versions.OpenState(path, history.State{Ino: b.Stamp.Ino, Size: b.Stamp.Size, Mtime: b.Stamp.Mtime})
	if err != nil {
		return nil, false
	}
	defer file.Close()
	data, _, err := bases.Read(int(file.Fd()))
	return data, err == nil && int64(len(data)) == b.Stamp.Size
}

// holdBase prepares to keep what the file st, which has the name p and is about to be
// replaced, holds: keep does that, once it is replaced.
func (f *FS) holdBase(p place, st *unix.Stat_t) (keep func(replaced bool)) {
	nothing := func(bool) {}
	if f.knowledge == nil || st == nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > merge.MaxSize {
		return nothing
	}
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	if set.LostUpdate != policy.Merge || !f.updates.Applies(&set) {
		return nothing
	}
	key, stamp := knowledge.Key(path), stampOfFile(st)
	number, is := f.knowledge.Current(key)
	if number == 0 || is != stamp {
		return nothing // nobody has read it
	}
	fd, err := commit.OpenUnnoticed(f.fdOf(p.dir), p.name)
	if err != nil {
		return nothing
	}
	return func(replaced bool) {
		if !replaced {
			unix.Close(fd)
			return
		}
		f.bases.PutFile(key, number, fd, stamp)
	}
}
