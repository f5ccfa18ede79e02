package fs

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/printable"
	"latchfs/journal/commit"
	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// Whether content may become a version of a name whose policy has validators.
//
// What a session has written is judged where it ends, at its place among the
// checks of a commit. RENAME and LINK give a name to content that exists already;
// that is judged by the rules of the name, and stays where it is if it is refused.
// While they are sent the kernel holds the locks of directories, which a
// validating command may need for a look around: so what may take its time is
// judged where a conflicting operation waits (park.go), and the repeated operation
// finds the verdict.

// errUnsettled refuses content that changes while it is looked at.
var errUnsettled = errors.New("the content was changed while it was being checked")

// settleTries is how often content that has changed meanwhile is looked at again.
const settleTries = 3

// quickSize is the size in bytes up to which a format is checked at once.
const quickSize = 1 << 20

// validation returns what a path's policy asks of its content; nil: nothing. Live
// files are nobody's to judge.
func (f *FS) validation(path string) *policy.Validation {
	set := f.settings(path)
	if set.Mode != policy.Atomic {
		return nil
	}
	return set.Validate
}

// judgesRecords reports whether what is appended to a file can be judged without
// the rest of it.
func judgesRecords(v *policy.Validation) bool {
	if v == nil {
		return true
	}
	for _, f := range v.Formats {
		if f != policy.JSONL {
			return false
		}
	}
	return !v.NonEmpty && len(v.Command) == 0
}

// isQuick reports whether content of a size is judged without anybody noticing.
func isQuick(v *policy.Validation, size int64) bool {
	return len(v.Command) == 0 && size <= quickSize
}

// judge checks the content of fd, which is open for reading and stays the
// caller's, as path's; the user uid wrote it. It returns the version that it has
// seen, and a *validate.Refusal if that is not to be.
func (f *FS) judge(ctx context.Context, fd int, path string, v *policy.Validation, uid uint32) (commit.Version, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return commit.Version{}, err
	}
	file := os.NewFile(uintptr(own), path)
	defer file.Close()
	o := validate.Options{
		NonEmpty: v.NonEmpty, MaxSize: v.MaxSize, Command: v.Command, Timeout: v.Timeout,
		Credential: f.commandUsers[v.CommandUser], Writer: uid, Helper: f.opts.Helper,
	}
	for _, format := range v.Formats {
		o.Formats = append(o.Formats, validate.Format(format))
	}
	if f.privileged && len(v.Command) > 0 && o.Credential == nil {
		return commit.Version{}, errNoCommandUser
	}
	for range settleTries {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return commit.Version{}, err
		}
		err := validate.Check(ctx, file, path, o)
		if e := unix.Fstat(fd, &after); e != nil {
			return commit.Version{}, e
		}
		if seen := commit.VersionOf(&before); seen == commit.VersionOf(&after) {
			return seen, err
		}
	}
	return commit.Version{}, errUnsettled
}

// judgeErrno is what a program is told about content that was not accepted.
func judgeErrno(err error) unix.Errno {
	var r *validate.Refusal
	switch {
	case errors.As(err, &r):
		return unix.EBADMSG
	case errors.Is(err, errUnsettled):
		return unix.EBUSY
	case errors.Is(err, context.Canceled):
		return unix.EINTR
	}
	return errnoOf(err)
}

// judgeReason is the same in words. They are for everybody, so they tell nothing
// of the content.
func judgeReason(err error) string {
	var r *validate.Refusal
	switch {
	case errors.As(err, &r):
		return err.Error()
	case errors.Is(err, context.Canceled):
		return "the check of the content was broken off"
	}
	return "the content cannot be checked: " + err.Error()
}

// noteVerdict adds to an event or to what is kept who refused the content and where.
func noteVerdict(detail map[string]any, err error) {
	var r *validate.Refusal
	var n *lostupdate.NotMerged
	if errors.As(err, &n) {
		n.Note(detail)
	}
	if !errors.As(err, &r) {
		return
	}
	detail["validator"] = r.Validator
	if r.Line > 0 {
		detail["line"] = r.Line
	}
	if r.Column > 0 {
		detail["column"] = r.Column
	}
}

// verdictOf is the refusal in err; nil if it is another error.
func verdictOf(err error) *validate.Refusal {
	var r *validate.Refusal
	var n *lostupdate.NotMerged
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &n):
		return n.Verdict()
	}
	return nil
}

// judgeLocked is the validators' place among the checks of a commit: the base is
// current, and what they accept is published next.
func (s *session) judgeLocked() unix.Errno {
	asked, err := s.verdictLocked()
	var conflict *commit.ConflictError
	switch {
	case errors.As(err, &conflict):
		return s.publishFailed(err)
	case err != nil:
		return s.rejectFor(judgeErrno(err), judgeReason(err), err)
	case asked && !s.keepsLock(): // it may have taken long
		return s.rejectLocked(unix.ESTALE, s.theft())
	}
	return 0
}

// verdictLocked asks the validators of every name whose content the session
// changes. A *commit.ConflictError says that there is no use in that.
func (s *session) verdictLocked() (asked bool, err error) {
	f := s.f
	own := s.path()
	for _, path := range s.pathsLocked() {
		v := f.validation(path)
		if v == nil {
			continue
		}
		dir, name := s.where()
		if err := s.shadow.CheckBase(s.publishOptions(dir, name)); err != nil {
			return false, err
		}
		asked = true
		s.judged, err = f.judge(f.checks, s.shadow.FD(), path, v, s.uid)
		if err != nil && path != own {
			err = &otherNameError{path, err}
		}
		if err != nil {
			return true, err
		}
	}
	return asked, nil
}

// otherNameError is a refusal under another name of a file than the session's.
type otherNameError struct {
	path string
	err  error
}

func (e *otherNameError) Error() string {
	return "as " + printable.Line(e.path) + ", another name of the file: " + e.err.Error()
}

func (e *otherNameError) Unwrap() error { return e.err }

// judgeInTxn asks the validators about what the session changes in a transaction, and notes
// what they have seen.
func (s *session) judgeInTxn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	asked := false
	if s.state == stateWriting && s.changedInTxn() && s.fillLocked() == 0 {
		asked, err = s.verdictLocked()
	}
	if !asked {
		s.judged = commit.Version{}
	}
	return err
}

// stillJudged reports whether the session has what the transaction's validators
// have seen.
func (s *session) stillJudged() bool {
	needs := slices.ContainsFunc(s.pathsLocked(), func(path string) bool { return s.f.validation(path) != nil })
	if !needs {
		return true
	}
	var st unix.Stat_t
	return unix.Fstat(s.shadow.FD(), &st) == nil && s.judged == commit.VersionOf(&st)
}

// pathsLocked are the names whose content the session changes: its own, and if it
// writes in place the others of the file.
func (s *session) pathsLocked() []string {
	own := s.path()
	paths := []string{own}
	if s.inPlace {
		for _, path := range s.f.otherPaths(s.base) {
			if path != own {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
