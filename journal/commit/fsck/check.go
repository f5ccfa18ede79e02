package fsck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/history"
	"latchfs/journal/statedir"
)

// The kinds of findings beside the journal's own.
const (
	FindStateDir     = "state-directory"  // is not as it has to be
	FindUnknown      = "unknown-entry"    // in the state directory, and not ours
	FindIntent       = "pending-intent"   // a change that was begun and not finished
	FindBadIntent    = "bad-intent"       // one that no recovery can deal with
	FindOrphan       = "orphan"           // a shadow that no intent stands for
	FindHalfRejected = "half-rejected"    // an entry of the rejected store being made, or removed
	FindRejected     = "damaged-rejected" // one that is damaged
)

// Checked is what Check has found in a data root.
type Checked struct {
	Findings []journal.Finding

	disk    *disk.Disk // without a journal
	rejects *rejected.Store
	journal *journal.Checked
	intents map[int]uint64    // IDs of those that findings are about, by index
	notOurs bool              // the state directory is not latchfs's
	shadows []foundShadow     // every reserved name
	targets map[uint64]int    // of commits in place: how many intents look for that inode
	moved   map[uint64]string // intents' IDs to where their target was found
}

// foundShadow is a file with a reserved name.
type foundShadow struct {
	dir, name string // dir is relative to the data root
	ino       uint64
}

func (f foundShadow) path() string { return path.Join(f.dir, f.name) }

// Check examines the data root rootfd and its state directory, which no daemon
// may have in use, and changes nothing. An error means that it could not look.
func Check(ctx context.Context, rootfd int, stateDir *os.File) (*Checked, error) {
	d := disk.New(rootfd, stateDir, nil)
	c := &Checked{disk: d, rejects: rejected.New(d), intents: map[int]uint64{},
		targets: map[uint64]int{}, moved: map[uint64]string{}}
	entries, err := c.checkState()
	if err != nil || c.notOurs {
		return c, err
	}
	if c.journal, err = journal.Check(stateDir); err != nil {
		return nil, err
	}
	old, err := history.Check(stateDir)
	if err != nil {
		return nil, err
	}
	for _, f := range slices.Concat(c.journal.Findings, old) {
		f.Path = path.Join(disk.StateDirName, f.Path)
		c.Findings = append(c.Findings, f)
	}
	if err := c.look(ctx, entries); err != nil {
		return nil, err
	}
	c.checkIntents()
	c.checkOrphans()
	return c, c.checkRejected()
}

// find adds a finding about path as a whole.
func (c *Checked) find(s journal.Severity, kind, path, what, means string) {
	c.Findings = append(c.Findings, journal.Finding{Severity: s, Kind: kind, Path: path, Offset: -1, What: what, Means: means})
}

// checkState looks at the state directory and at the names in it, which it
// returns.
func (c *Checked) checkState() ([]disk.Entry, error) {
	var entries []disk.Entry
	if err := disk.ReadDir(c.disk.StateFD(), func(e disk.Entry) error { entries = append(entries, e); return nil }); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b disk.Entry) int { return strings.Compare(a.Name, b.Name) })
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e disk.Entry) bool { return e.Name == disk.LockName }) {
		c.notOurs = true
		c.find(journal.Problem, FindStateDir, disk.StateDirName, "has no "+disk.LockName,
			"latchfs has not made this directory, and does not mount here until it has another name")
		return nil, nil
	}
	var st, root unix.Stat_t
	if err := errors.Join(unix.Fstat(c.disk.StateFD(), &st), unix.Fstat(c.disk.Root, &root)); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Mode&0o7777 != 0o700 {
		c.find(journal.Problem, FindStateDir, disk.StateDirName, fmt.Sprintf("has mode %04o instead of 0700", st.Mode&0o7777),
			"others may be able to read what was refused or is being written; the next mount sets it right")
	}
	if st.Uid != 0 && st.Uid != root.Uid {
		c.find(journal.Problem, FindStateDir, disk.StateDirName, fmt.Sprintf("belongs to user %d, the data root to user %d", st.Uid, root.Uid),
			"that user can read and change what latchfs relies on; chown it when you know why")
	}
	if len(entries) > 0 {
		c.checkLock()
	}
	for _, e := range entries {
		if !knownState(e) {
			c.find(journal.Info, FindUnknown, path.Join(disk.StateDirName, e.Name), "not an entry that latchfs makes",
				"nothing uses it, and it is left alone")
		}
	}
	return entries, nil
}

// checkLock looks at the lock's file as a mount does, which opens it to write.
func (c *Checked) checkLock() {
	fd, err := statedir.OpenFile(c.disk.StateFD(), disk.LockName, unix.O_RDONLY)
	if err == nil {
		defer unix.Close(fd)
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Nlink > 1 {
			err = fmt.Errorf("%w: the file has another name", statedir.ErrForeign)
		}
	}
	if err != nil {
		c.find(journal.Problem, FindStateDir, path.Join(disk.StateDirName, disk.LockName), "is "+err.Error(),
			"no mount starts with it, and no repair takes it away: rename it, or set its owner and mode right, while nothing has the directory mounted")
	}
}

func knownState(e disk.Entry) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(e.Name, rejected.BallastPrefix))
	ballast := err == nil && n < rejected.BallastCount && rejected.BallastName(n) == e.Name
	return ballast || e.Name == disk.LockName || e.Name == disk.IgnoreName || e.Name == disk.MarkerName || e.Name == rejected.Dir || e.Name == history.Dir || journal.Known(e.Name) || audit.Known(e.Name) || disk.Generated(e.Name) ||
		slices.Contains(lessons, strings.TrimSuffix(strings.TrimSuffix(e.Name, ".new"), ".broken"))
}

// lessons are files of what a mount has learned, which the data does not depend on: who
// has read what, which programs write back what they read, and which processes may have
// the claims that lock files are. They are written
// under a name with ".new", and set aside with ".broken".
var lessons = []string{"knowledge.log", "knowledge.json", "programs.json", "claims.json"}

// look walks over the data root for reserved names, and for the targets of
// commits in place. entries are those of the state directory.
func (c *Checked) look(ctx context.Context, entries []disk.Entry) error {
	for _, in := range c.journal.Pending {
		if in.Kind == journal.KindInPlace {
			c.targets[in.TargetIno]++
		}
	}
	visit := func(dir int, where string, e disk.Entry) error {
		if _, marker := lazy.ReadMark(c.disk, dir, e); marker {
			return nil // what it is about is found by its directory's intent
		}
		if disk.Generated(e.Name) && !e.IsDir {
			c.shadows = append(c.shadows, foundShadow{where, e.Name, e.Ino})
		} else if c.targets[e.Ino] > 0 && !disk.Reserved(e.Name) {
			c.lookAt(dir, where, e)
		}
		return nil
	}
	return c.disk.WalkAll(ctx, func() {
		c.shadows = c.shadows[:0]
		for _, e := range entries {
			if disk.Generated(e.Name) && !e.IsDir {
				c.shadows = append(c.shadows, foundShadow{disk.StateDirName, e.Name, e.Ino})
			}
		}
	}, visit)
}

// lookAt notes the intents whose target e is.
func (c *Checked) lookAt(dir int, where string, e disk.Entry) {
	fd, err := unix.Openat(dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	for _, in := range c.journal.Pending {
		if in.Kind == journal.KindInPlace && disk.IsTarget(fd, &st, in) {
			c.moved[in.ID] = path.Join(where, e.Name)
		}
	}
}
