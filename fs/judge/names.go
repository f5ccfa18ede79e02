package judge

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// ErrEnded says that a Content is elsewhere by now: what its writer has open has ended, and
// is under its name.
var ErrEnded = errors.New("the session has ended")

// Content is content that exists already.
type Content interface {
	// Open opens it for reading; the caller closes that. The error may be ErrEnded.
	Open() (fd int, err error)
	// IsPending reports whether it is not known yet what there will be to judge.
	IsPending() bool
	// Name is where it is, for people; "" if it has no name.
	Name() string
}

// Candidate is content that an operation is about to give a name.
type Candidate struct {
	Content Content
	Path    string             // the name that it is to have
	Rules   *policy.Validation // of that
}

// TakesTime reports whether one of the candidates should not be judged while the kernel
// holds directories locked.
func TakesTime(list []Candidate) bool {
	for _, k := range list {
		if k.Content.IsPending() {
			return true
		}
		var st unix.Stat_t
		fd, err := k.Content.Open()
		if err != nil {
			continue
		}
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err == nil && !isQuick(k.Rules, st.Size) {
			return true
		}
	}
	return false
}

// Passed is the content that has passed, while one lock is held. The zero value is empty.
type Passed struct {
	list atomic.Pointer[[]passed]
}

// passed is content that has passed as that of a path.
type passed struct {
	path    string
	version commit.Version
}

func (p *Passed) add(path string, v commit.Version) {
	list := []passed{{path, v}}
	if old := p.list.Load(); old != nil {
		list = append(list, *old...)
	}
	p.list.Store(&list)
}

// Has reports whether the content of fd, as it is, has passed as that of a path.
func (p *Passed) Has(path string, fd int) bool {
	list := p.list.Load()
	var st unix.Stat_t
	if list == nil || unix.Fstat(fd, &st) != nil {
		return false
	}
	return slices.Contains(*list, passed{path, commit.VersionOf(&st)})
}

// Admit judges candidates for an operation of a user, in their order, and returns the first
// that is not accepted, with the reason. What has passed before is not looked at again.
func (j *Judge) Admit(ctx context.Context, p *Passed, user uint32, list []Candidate) (*Candidate, error) {
	for i := range list {
		if err := j.admit(ctx, p, user, &list[i]); err != nil {
			return &list[i], err
		}
	}
	return nil, nil
}

func (j *Judge) admit(ctx context.Context, p *Passed, user uint32, k *Candidate) error {
	fd, err := k.Content.Open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if p.Has(k.Path, fd) {
		return nil
	}
	seen, err := j.content(ctx, fd, k.Path, k.Rules, user)
	if err == nil {
		p.add(k.Path, seen)
	}
	return err
}
