package proc

import (
	"errors"
	"fmt"
	"time"

	"latchfs/lockmgr/proc/internal/ends"
	"latchfs/lockmgr/proc/internal/environs"
	"latchfs/lockmgr/proc/internal/forks"
	"latchfs/lockmgr/proc/internal/patience"
	"latchfs/lockmgr/proc/internal/procfs"
)

// Errors of this package; all others are those of the system calls.
var (
	// ErrGone means that there is no such process or thread any more.
	ErrGone = procfs.ErrGone
	// ErrForeign means that the caller is in a pid namespace that cannot be
	// seen from here: the kernel gives its thread id as 0.
	ErrForeign = errors.New("process is in a foreign pid namespace")
	// ErrBusy means that the process is inside execve, or holds its memory lock,
	// and that the answer cannot be had before it goes on.
	ErrBusy = patience.ErrBusy
)

// trustFor is how long what was read is believed without a look at /proc. It is
// far below the time in which the kernel can give out every pid once.
const trustFor = 10 * time.Millisecond

// Reader answers questions about processes. Its methods may be called by
// several goroutines at once.
type Reader struct {
	root  *procfs.Root // used by the owner, and by patient questions
	users [2]string    // uid_map and gid_map of our own user namespace
	kids  bool         // the kernel has task/*/children
	sched bool         // the kernel has task/*/schedstat

	known     cache
	questions *patience.Questions
	// fileQuestions are those about descriptors.
	fileQuestions *patience.Questions
	watches       *ends.Watches
	families      familyCache
	environs      environs.Cache
	keeper        keeper
	forks         *forks.Table // nil unless FollowForks has been called
}

// New opens a procfs, "/proc" by default, and checks that it answers what the
// package needs: it must belong to the caller's own pid namespace, and its
// kernel must be 5.14 or newer.
func New(procRoot string) (*Reader, error) {
	if procRoot == "" {
		procRoot = "/proc"
	}
	root, err := procfs.Open(procRoot)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", procRoot, err)
	}
	r := &Reader{root: root}
	r.watches = ends.New(r.statOf)
	r.questions = patience.New(root, r.inExec, maxAskedOf)
	r.fileQuestions = patience.New(root, r.inExec, maxFilesOf)
	r.keeper.of = map[int32]*kept{}
	if err := r.learn(); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", procRoot, err)
	}
	return r, nil
}

// learn finds out what the kernel tells, and which users we may see.
func (r *Reader) learn() error {
	var err error
	if r.users, err = r.idMaps("self/"); err != nil {
		return err
	}
	_, err = r.root.ReadAll("thread-self/children")
	r.kids = err == nil
	// Where the kernel does not keep count it may still have the file. A thread
	// that reads has run, and so has one time slice at least.
	sched, err := r.root.ReadAll("thread-self/schedstat")
	r.sched = err == nil && string(sched) != "0 0 0\n"
	return nil
}

// FollowForks makes the reader remember from now on which process has started which,
// so that Family knows who has started an orphan. It is called once, before any question.
// An error says why the kernel does not tell: it does not inside a container, nor before
// Linux 6.6 to an ordinary user.
func (r *Reader) FollowForks() error {
	table, err := forks.Follow(r.root)
	if err != nil {
		return err
	}
	r.forks = table
	return nil
}

// UnfollowForks ends that. It may be called more than once.
func (r *Reader) UnfollowForks() { r.forks.Close() }

// Close releases the descriptors. It is called once, when no other call is under
// way. Watches go on.
func (r *Reader) Close() {
	r.UnfollowForks()
	r.keeper.close()
	r.root.Release()
}
