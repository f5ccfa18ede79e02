package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs"
	"latchfs/lockmgr/policy"
)

// defaultGrace is how long a shutdown waits for running sessions.
const defaultGrace = 10 * time.Second

// mountFlags are the flags of `latchfs mount`.
type mountFlags struct {
	allowOther    bool
	readOnly      bool
	foreground    bool
	debug         bool
	noPassthrough bool
	policyFlags
	durability  string
	locksDir    string
	listLocks   bool
	logFile     string
	logLevel    string
	lockTimeout time.Duration
	grace       time.Duration
	options     []string
}

// newMountCommand makes `latchfs mount`. args is the whole command line, with
// which a daemon in the background is started again.
func newMountCommand(args []string) *cobra.Command {
	var f mountFlags
	cmd := &cobra.Command{
		Use:   "mount DIR [MOUNTPOINT]",
		Short: "Mount a directory",
		Long: `Mount the data directory DIR at MOUNTPOINT, or over DIR itself.

Without --foreground the command returns once the mount answers, and a daemon
goes on in the background. Programs that work in the directory from before are
named: what they do there goes past the mount until they enter it anew. The daemon ends when the mount is unmounted, or on SIGTERM or
SIGINT, with the mount; what was not closed by then is rolled back.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("which directory? latchfs mount DIR [MOUNTPOINT]")
			case len(args) > 2:
				return usagef("%d arguments are too many: latchfs mount DIR [MOUNTPOINT]", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error {
			return runMount(cmd, &f, paths, args)
		},
	}
	f.register(cmd)
	return cmd
}

// register declares the flags.
func (f *mountFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.BoolVar(&f.allowOther, "allow-other", os.Geteuid() == 0, "let other users in; the kernel checks permissions (default for root)")
	fl.BoolVar(&f.readOnly, "read-only", false, "mount read-only")
	fl.BoolVarP(&f.foreground, "foreground", "f", false, "stay in the foreground")
	f.policyFlags.register(cmd, "policy `FILE` (TOML)")
	fl.DurationVar(&f.lockTimeout, "lock-timeout", 30*time.Second, "how long to wait for a lock where no rule says so; 0 fails at once")
	fl.StringVar(&f.durability, "durability", string(policy.AutoDurability), "auto, full, ordered or lazy, where no rule says so")
	fl.StringVar(&f.locksDir, "locks-dir", ".locks", "`NAME` of the virtual directory at the mount's root")
	fl.BoolVar(&f.listLocks, "list-locks", false, "show the virtual directory in listings of the root; it is reached by name in any case")
	fl.DurationVar(&f.grace, "grace", defaultGrace, "how long a shutdown lets running sessions finish")
	fl.BoolVar(&f.noPassthrough, "no-passthrough", false, "send all reads and writes through the daemon")
	fl.StringVar(&f.logFile, "log-file", "", "write the log to `FILE`, which SIGHUP opens anew; a daemon in the background has no log without it")
	fl.StringVar(&f.logLevel, "log-level", "", "log `LEVEL`: error, warning, info, debug or trace (default: info)")
	fl.BoolVar(&f.debug, "debug", false, "log every FUSE request")
	fl.StringSliceVarP(&f.options, "mount-option", "o", nil, "kernel mount `OPTION`: nodev, noexec, nosuid, sync, dirsync")
}

// runMount is `latchfs mount`.
func runMount(cmd *cobra.Command, f *mountFlags, paths, args []string) error {
	plan, err := f.plan(cmd, paths)
	if err != nil {
		return err
	}
	starter, err := adoptStarter()
	if err != nil {
		return err
	}
	if starter == nil && !f.foreground {
		return startBackground(args, cmd.ErrOrStderr())
	}

	log, err := openLog(plan.level, f.logFile, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	plan.options.Log = log.Entry()
	// Modes come from the callers, who have applied their own masks already.
	unix.Umask(0)
	// The paths are absolute by now; a working directory would keep some other
	// filesystem busy.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	d := newDaemon(plan.options, log)
	look := func() { warnOfWorkers(func(text string) { warn(cmd, "%s", text) }, plan.options.Mountpoint) }
	d.ready = func() error {
		if starter == nil {
			go look() // no service waits for it
			return nil
		}
		look()
		return starter.ready(log)
	}
	return d.run()
}

// mountPlan is what the flags ask for, checked.
type mountPlan struct {
	options fs.Options
	level   logrus.Level
}

// plan checks the flags and reads the policy.
func (f *mountFlags) plan(cmd *cobra.Command, paths []string) (*mountPlan, error) {
	level, err := f.level()
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	pol, err := f.policy(cmd)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		if paths[i], err = filepath.Abs(p); err != nil {
			return nil, err
		}
	}
	o := fs.Options{
		Dir:          paths[0],
		Mountpoint:   paths[len(paths)-1],
		AllowOther:   f.allowOther,
		ReadOnly:     f.readOnly,
		LocksDir:     f.locksDir,
		ListLocks:    f.listLocks,
		LockTimeout:  f.lockTimeout,
		Policy:       pol,
		Version:      version,
		Debug:        f.debug,
		Grace:        f.grace,
		MountOptions: f.options,
		Helper:       "/proc/self/exe",

		DropPrivileges: true,
	}
	if f.noPassthrough {
		o.Passthrough = new(bool)
	}
	if f.logFile != "" {
		if f.logFile, err = filepath.Abs(f.logFile); err != nil {
			return nil, err
		}
		if within(f.logFile, o.Mountpoint) || within(f.logFile, o.Dir) {
			return nil, usagef("--log-file %s: the log cannot be inside the mount it is about", f.logFile)
		}
	}
	return &mountPlan{options: o, level: level}, nil
}

// check refuses values that their types allow.
func (f *mountFlags) check() error {
	if f.lockTimeout < 0 {
		return usagef("--lock-timeout %v: cannot be negative", f.lockTimeout)
	}
	if f.grace < 0 {
		return usagef("--grace %v: cannot be negative", f.grace)
	}
	if l := f.locksDir; l == "" || l == "." || l == ".." || strings.ContainsAny(l, "/\x00") || len(l) > unix.NAME_MAX {
		return usagef("--locks-dir %q: want the name of a directory, not a path", l)
	}
	switch policy.Durability(f.durability) {
	case policy.AutoDurability, policy.Full, policy.Ordered, policy.Lazy:
	default:
		return usagef("--durability %q: want auto, full, ordered or lazy", f.durability)
	}
	for _, o := range f.options {
		if mountOptions[o].kind != optKernel {
			return usagef("--mount-option %q: not an option that the kernel knows", o)
		}
	}
	return nil
}

// level is the log level in force: where nobody reads the log, only what is
// worth a line on the terminal of whoever starts the daemon.
func (f *mountFlags) level() (logrus.Level, error) {
	switch {
	case f.logLevel != "":
		level, err := logrus.ParseLevel(f.logLevel)
		if err != nil || level < logrus.ErrorLevel {
			return 0, usagef("--log-level %q: want error, warning, info, debug or trace", f.logLevel)
		}
		return level, nil
	case f.debug:
		return logrus.DebugLevel, nil
	case f.foreground || f.logFile != "":
		return logrus.InfoLevel, nil
	default:
		return logrus.WarnLevel, nil
	}
}

// policy reads the policy file and the presets. What the command line says explicitly
// replaces the file's defaults; a rule of the file that says otherwise keeps its word.
func (f *mountFlags) policy(cmd *cobra.Command) (*policy.Policy, error) {
	durability := cmd.Flags().Changed("durability")
	if f.config != "" && durability {
		return nil, usagef("--durability and --config exclude each other; set durability under [defaults] in %s", f.config)
	}
	presets, err := f.parse()
	if err != nil {
		return nil, err
	}
	var p *policy.Policy
	if durability {
		p, err = policy.Compose("--durability", fmt.Appendf(nil, "[defaults]\ndurability = %q\n", f.durability), presets)
	} else {
		p, err = policy.LoadWith(f.config, presets)
	}
	if err != nil {
		return nil, err
	}
	if f.config == "" && len(presets) == 0 || cmd.Flags().Changed("lock-timeout") {
		p = p.WithDefaults(f.lockTimeout)
	}
	return p, nil
}

// within tells whether path is dir or inside it, whatever links lead there.
func within(path, dir string) bool {
	rel, err := filepath.Rel(resolve(dir), resolve(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// resolve follows the links of a path as far as it exists.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolve(dir), filepath.Base(path))
	}
	return path
}
