package judge

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// ErrUnsettled refuses content that changes while it is looked at.
var ErrUnsettled = errors.New("the content was changed while it was being checked")

// settleTries is how often content is looked at that changes meanwhile.
const settleTries = 3

// QuickSize is the size in bytes up to which a format is checked at once.
const QuickSize = 1 << 20

// Config says what a Judge stands on.
type Config struct {
	// Settings are what the policy says of a path.
	Settings func(path string) policy.Settings
	// Helper is the program that parses what is large, and confines commands. See
	// validate.Options.
	Helper string
	// Ask asks the validators about content; nil: validate.Check. A simulation has a
	// command of its own.
	Ask func(ctx context.Context, f *os.File, name string, o validate.Options) error
}

// Judge judges content.
type Judge struct {
	Config
	users Users

	ctx  context.Context
	stop context.CancelFunc
}

// New makes a judge that runs no command.
func New(c Config) *Judge {
	j := &Judge{Config: c}
	if j.Ask == nil {
		j.Ask = validate.Check
	}
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// RunAs says as whom commands run. It is called before anything is judged.
func (j *Judge) RunAs(u Users) { j.users = u }

// Stop breaks off what is being checked, and everything that is to be from now on.
func (j *Judge) Stop() { j.stop() }

// Context is that of a check which only Stop ends.
func (j *Judge) Context() context.Context { return j.ctx }

// Until is the context of a check for somebody who may be called away: once cancel is
// closed, isCalled is asked every interval whether that has come.
func (j *Judge) Until(cancel <-chan struct{}, interval time.Duration, isCalled func() bool) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(j.ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
		}
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			if isCalled() {
				stop()
			}
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	}()
	return ctx, stop
}

// Rules are what a path's policy asks of its content; nil: nothing.
func (j *Judge) Rules(path string) *policy.Validation {
	set := j.Settings(path)
	if set.Mode != policy.Atomic {
		return nil
	}
	return set.Validate
}

// isQuick reports whether content of a size is judged without anybody noticing.
func isQuick(v *policy.Validation, size int64) bool {
	return len(v.Command) == 0 && size <= QuickSize
}

// Check judges the content of fd, which is open for reading, as path's; the user writer has
// made it. The error of what is not accepted is a *validate.Refusal.
func (j *Judge) Check(path string, fd int, writer uint32) error {
	v := j.Rules(path)
	if v == nil {
		return nil
	}
	_, err := j.content(j.ctx, fd, path, v, writer)
	return err
}

// content is Check by the rules v, and returns the version that it has seen.
func (j *Judge) content(ctx context.Context, fd int, path string, v *policy.Validation, writer uint32) (commit.Version, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return commit.Version{}, err
	}
	file := os.NewFile(uintptr(own), path)
	defer file.Close()
	o := validate.Options{
		NonEmpty: v.NonEmpty, MaxSize: v.MaxSize, Command: v.Command, Timeout: v.Timeout, Writer: writer, Helper: j.Helper,
	}
	for _, format := range v.Formats {
		o.Formats = append(o.Formats, validate.Format(format))
	}
	if len(v.Command) > 0 {
		if o.Credential, err = j.users.of(v.CommandUser); err != nil {
			return commit.Version{}, err
		}
	}
	for range settleTries {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return commit.Version{}, err
		}
		err := j.Ask(ctx, file, path, o)
		if e := unix.Fstat(fd, &after); e != nil {
			return commit.Version{}, e
		}
		if seen := commit.VersionOf(&before); seen == commit.VersionOf(&after) {
			return seen, err
		}
	}
	return commit.Version{}, ErrUnsettled
}
