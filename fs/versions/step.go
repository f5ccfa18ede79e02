package versions

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/policy"
)

// A Step is a change of what a name holds: from one version to the next. See the package
// comment.
type Step struct {
	r      *Recorder
	name   Name
	most   int          // how many contents the path keeps
	before history.Ref  // the version that the name holds; zero if none
	old    commit.Inode // its inode; zero if none
	alone  bool         // which has no other name
	keep   commit.Keep
	reach  history.Reach // of what is to be kept
}

// Step prepares a change of what a name holds, which is the file st; nil is nothing. It is
// nil where the settings keep no versions.
func (r *Recorder) Step(n Name, set *policy.Settings, st *unix.Stat_t) *Step {
	if !r.Keeps(set) {
		return nil
	}
	s := &Step{r: r, name: n, most: set.History}
	if !isFile(st) {
		s.before.Number = r.c.History.Absent(n.Path)
		return s
	}
	var known bool
	if s.before, known = r.c.History.Match(n.Path, history.StateOf(st)); !known {
		s.before = r.discover(&n, st)
	}
	s.old = inodeOf(st)
	if r.c.History.Takes(st.Size) {
		// Under another name the file is written, and gets another mode, as it is.
		s.keep = commit.Keep{ID: s.before.Content, Copy: st.Nlink > 1 || r.mayBeWritten(s.old, st.Size), Ino: st.Ino}
		s.reach = n.Reach()
	}
	return s
}

// StepNow is Step for whatever the name holds now.
func (r *Recorder) StepNow(n Name, set *policy.Settings) *Step {
	if !r.Keeps(set) {
		return nil
	}
	return r.Step(n, set, n.stat())
}

// Keep says what is to become of the file that loses its name.
func (s *Step) Keep() commit.Keep {
	if s == nil {
		return commit.Keep{}
	}
	return s.keep
}

// Content is the id of the content before, "" if there is none. Where the file is renamed,
// its new path goes on with it.
func (s *Step) Content() string {
	if s == nil {
		return ""
	}
	return s.before.Content
}

// KeepCopy lets a copy be kept, whoever may write the file: its inode keeps its names.
func (s *Step) KeepCopy() {
	if s != nil {
		s.keep.Copy = true
	}
}

// InPlace says that the file st keeps its name and gets another content: a copy of it is
// kept. If that name is its only one, no other path holds it, and none is looked for.
func (s *Step) InPlace(st *unix.Stat_t) {
	if s == nil {
		return
	}
	s.KeepCopy()
	s.alone = st.Nlink == 1
}

// KeepAlone lets the file st be kept only if it has no other names: it may be written under
// them.
func (s *Step) KeepAlone(st *unix.Stat_t) {
	if s != nil && st.Nlink > 1 {
		s.keep = commit.Keep{}
	}
}

// KeepAloneNow is KeepAlone for whatever the name holds now.
func (s *Step) KeepAloneNow() {
	if s == nil {
		return
	}
	if st := s.name.stat(); st != nil {
		s.KeepAlone(st)
	}
}

// Enter enters the version after the change. The name has that path now. kept tells whether
// the file before is in the history.
func (s *Step) Enter(path string, v history.Version, kept bool) {
	if s == nil || v.Event != history.Commit && s.old == (commit.Inode{}) {
		return // no file before, none after
	}
	h := s.r.c.History
	v.Path, v.Base = path, s.before.Number
	if v.Event == history.Commit && v.State.Ino == s.old.Ino && !s.alone {
		h.Linked(path, v.State)
	}
	h.Add(v)
	h.Keep(path, s.before, s.most)
	if kept && h.OfInode(s.old.Ino) == s.before.Content { // and no copy of it
		s.r.c.Engine.OnlyKept(s.old)
	}
	if kept {
		h.Reached(s.before.Content, s.reach)
	}
}

// releasePoll is how often somebody looks who waits for the end of a descriptor: nothing
// announces it.
const releasePoll = time.Millisecond

// mayBeWritten reports whether a copy has to be kept of an inode. Where that would be dear
// the end of the descriptors that can write it is waited for.
func (r *Recorder) mayBeWritten(in commit.Inode, size int64) bool {
	for until := time.Now().Add(r.c.Grace); r.c.Engine.HasWriters(in); time.Sleep(releasePoll) {
		if size <= commit.MaxKeptCopy || time.Now().After(until) {
			return true
		}
	}
	return false
}

// isFile reports whether st is a regular file; nil is none.
func isFile(st *unix.Stat_t) bool { return st != nil && st.Mode&unix.S_IFMT == unix.S_IFREG }

func inodeOf(st *unix.Stat_t) commit.Inode { return commit.Inode{Dev: uint64(st.Dev), Ino: st.Ino} }
