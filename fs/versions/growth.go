package versions

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/history"
)

// Appended records make no versions: the one that is there grows. The history is told when
// that begins, so that a crash in between is not taken for a change outside the mount, and
// how far it went when whoever appends has done with the file.

// IsFirst reports whether nothing is known of a path, whose file st holds nothing but the
// bytes that were appended to it: then it is a new file, and a version of whoever appends.
func (r *Recorder) IsFirst(path string, st *unix.Stat_t, added int) bool {
	return r != nil && st.Size == int64(added) && !r.c.History.Known(path)
}

// AddFile enters a version that is the file st behind fd.
func (r *Recorder) AddFile(v history.Version, st *unix.Stat_t, fd int) {
	v.State, v.Rights = history.StateOf(st), RightsOf(st, fd)
	r.c.History.Add(v)
}

// Grow notes that somebody begins to append to an inode, which is the file st that a path
// holds.
func (r *Recorder) Grow(in commit.Inode, path string, st *unix.Stat_t) {
	r.mu.Lock()
	r.growing[in]++
	r.mu.Unlock()
	r.Is(path, st, true)
}

// Rest is the end of one Grow. It reports whether nobody else makes the inode grow, so that
// the history is to be told how far it went.
func (r *Recorder) Rest(of commit.Inode) (rests bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.growing[of]--; r.growing[of] > 0 {
		return false
	}
	delete(r.growing, of)
	return true
}

// IsGrowing reports whether somebody makes an inode grow.
func (r *Recorder) IsGrowing(in commit.Inode) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.growing[in] > 0
}
