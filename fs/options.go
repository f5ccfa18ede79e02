package fs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"latchfs/fs/datadir"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Logger receives what an operator should see. *logrus.Entry satisfies it;
// the package itself never configures logging.
type Logger interface {
	Debugf(format string, args ...any)
	Infof(format string, args ...any)
	Warnf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Options say what is mounted where and how. The zero value of every field
// but Dir is usable.
type Options struct {
	// Dir is the data directory. It keeps its contents; the mount shows them.
	Dir string
	// Mountpoint is where programs work; empty means over Dir itself.
	Mountpoint string
	// AllowOther lets other users in; the kernel checks permissions.
	AllowOther bool
	// ReadOnly mounts without sessions, locks or journal.
	ReadOnly bool
	// LocksDir is the name of the virtual directory at the mount's root.
	// Empty means ".locks".
	LocksDir string
	// ListLocks shows the virtual directory in listings of the root. By its name it
	// can always be reached.
	ListLocks bool
	// LockTimeout is how long an operation waits for a lock before EBUSY where
	// the policy does not say otherwise. Zero means 30 s (SEED C6).
	LockTimeout time.Duration
	// Policy says which rules hold for a path; nil means the built-in one.
	Policy *policy.Policy
	// Log receives messages; nil discards them.
	Log Logger
	// Version is the program's version, shown in .locks/README.
	Version string
	// Passthrough forces kernel passthrough I/O on or off; nil means wherever
	// the kernel and the privileges allow it.
	Passthrough *bool
	// DropPrivileges takes from the whole process, for good, what a mount does not need.
	DropPrivileges bool
	// Debug logs every FUSE request.
	Debug bool
	// Grace is how long a shutdown lets running sessions finish. Zero means 5 s.
	Grace time.Duration
	// Helper is a program that begins with validate.Serve, for content that is not
	// judged in this process; see validate.Options.
	Helper string
	// MountOptions are further mount(8) options such as noexec or nodev.
	MountOptions []string
	// Authority makes what decides about the mount's locks, whose first fencing token is
	// first or greater; nil means a lock table of its own.
	Authority func(first uint64) lockmgr.Authority
}

// Errors that Open and Begin wrap, beside those of packages datadir and mounts. Each refusal
// names the path and the reason.
var (
	ErrReservedName = datadir.ErrReservedName
	ErrBadOption    = datadir.ErrBadOption
	ErrKernel       = errors.New("the kernel does not do what latchfs relies on")
)

const (
	defaultLocksDir    = ".locks"
	defaultLockTimeout = 30 * time.Second
	defaultGrace       = 5 * time.Second
)

// Validate fills in defaults and refuses what cannot work.
func (o *Options) Validate() error {
	if o.Dir == "" {
		return fmt.Errorf("%w: no data directory given", ErrBadOption)
	}
	if o.LocksDir == "" {
		o.LocksDir = defaultLocksDir
	}
	if strings.ContainsRune(o.LocksDir, '/') || o.LocksDir == "." || o.LocksDir == ".." || len(o.LocksDir) > 255 {
		return fmt.Errorf("%w: locks directory %q must be a single name", ErrBadOption, o.LocksDir)
	}
	if commit.Reserved(o.LocksDir) {
		return fmt.Errorf("%w: locks directory %q is a reserved name", ErrBadOption, o.LocksDir)
	}
	if o.LockTimeout < 0 {
		return fmt.Errorf("%w: lock timeout %v is negative", ErrBadOption, o.LockTimeout)
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultLockTimeout
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Mountpoint == "" {
		o.Mountpoint = o.Dir
	}
	if o.Policy == nil {
		o.Policy = policy.Default().WithDefaults(o.LockTimeout)
	}
	if o.Log == nil {
		o.Log = discard{}
	}
	if o.Authority == nil {
		o.Authority = func(first uint64) lockmgr.Authority { return lockmgr.New(lockmgr.Options{FirstToken: first}) }
	}
	return nil
}

type discard struct{}

func (discard) Debugf(string, ...any) {}
func (discard) Infof(string, ...any)  {}
func (discard) Warnf(string, ...any)  {}
func (discard) Errorf(string, ...any) {}
