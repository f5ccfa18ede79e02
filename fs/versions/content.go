package versions

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

// Number is the number of the version of a path that has a state, 0 if there is none now.
// counts says that the path has numbers: two ways of counting would confuse.
func (r *Recorder) Number(path string, is history.State) (number uint64, counts bool) {
	if r == nil {
		return 0, false
	}
	for v := range r.c.History.NewestOf(path) {
		if v.State == is {
			return v.Number, true
		}
	}
	return 0, r.c.History.Known(path)
}

// Open opens what a version of a path held.
func (r *Recorder) Open(path string, number uint64) (*os.File, error) {
	if r == nil {
		return nil, history.ErrNotKept
	}
	return r.c.History.OpenContent(path, number)
}

// OpenState opens what the newest version of a path held that has a state.
func (r *Recorder) OpenState(path string, is history.State) (*os.File, error) {
	if r == nil {
		return nil, history.ErrNotKept
	}
	for _, v := range slices.Backward(r.c.History.KeptOf(path)) {
		if v.State == is {
			return r.c.History.OpenContent(path, v.Number)
		}
	}
	return nil, history.ErrNotKept
}

// IsContent reports whether an inode of the data's device is what a version held.
func (r *Recorder) IsContent(ino uint64) bool { return r != nil && r.c.History.OfInode(ino) != "" }

// Unshare gives an earlier version, which somebody is about to write, to its writer: the
// history keeps a copy, or nothing. It reports whether the inode was one.
func (r *Recorder) Unshare(ino uint64) (was bool, err error) {
	if r == nil {
		return false, nil
	}
	id := r.c.History.OfInode(ino)
	if id == "" {
		return false, nil
	}
	_, err = r.c.Contents.Unshare(id)
	r.c.History.Renewed(id)
	return true, err
}

// Remover is who has removed a file.
type Remover struct {
	PID int32
	UID uint32
}

// Back is what has become of a file that has its name back.
type Back struct {
	Number uint64       // of the version that it is
	Is     *unix.Stat_t // the file; nil if it is gone again already, outside the mount
}

// PutBack gives the file that was removed from a name that back, if by is nil or whoever has
// removed it. The file has to be in the history with its own inode, and nothing else may have
// the name, whose lock is held. It returns nil if there is no such file. The version that is
// entered tells of the operation op by whoever has made the file.
func (r *Recorder) PutBack(n Name, op string, by *Remover) (*Back, error) {
	v, ok := r.removed(n.Path, by)
	if !ok {
		return nil, nil
	}
	if err := r.c.Contents.PutBack(v.Content, n.Dir, n.Base); err != nil {
		return nil, err
	}
	r.c.History.Renewed(v.Content)
	st := n.stat()
	if st != nil {
		r.c.History.Add(history.Version{
			Path: n.Path, Event: history.Commit, Operation: op, Base: v.Number, Time: time.Now(),
			Program: v.Program, Actor: v.Actor, PID: v.PID, UID: v.UID, State: history.StateOf(st), Rights: v.Rights,
		})
	}
	return &Back{Number: v.Number, Is: st}, nil
}

// removed is the version that a path held before it was removed, if it can be put back.
func (r *Recorder) removed(path string, by *Remover) (v history.Version, ok bool) {
	if r == nil {
		return v, false
	}
	var list []history.Version
	for v := range r.c.History.NewestOf(path) {
		if list = append(list, v); len(list) == 2 {
			break
		}
	}
	if len(list) < 2 || list[0].Event != history.Delete || by != nil && (list[0].PID != by.PID || list[0].UID != by.UID) {
		return v, false
	}
	v = list[1]
	return v, v.Kept && r.c.History.OfInode(v.State.Ino) == v.Content
}
