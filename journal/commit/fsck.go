package commit

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
	"latchfs/journal/history"
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

	*disk   // without a journal
	rejects *rejects
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
	d := newDisk(rootfd, stateDir, nil)
	c := &Checked{disk: d, rejects: newRejects(d), intents: map[int]uint64{},
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
		f.Path = path.Join(StateDirName, f.Path)
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
func (c *Checked) checkState() ([]dirent, error) {
	var entries []dirent
	if err := readDir(c.stateFD(), func(e dirent) error { entries = append(entries, e); return nil }); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e dirent) bool { return e.name == LockName }) {
		c.notOurs = true
		c.find(journal.Problem, FindStateDir, StateDirName, "has no "+LockName,
			"latchfs has not made this directory, and does not mount here until it has another name")
		return nil, nil
	}
	var st, root unix.Stat_t
	if err := errors.Join(unix.Fstat(c.stateFD(), &st), unix.Fstat(c.root, &root)); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Mode&0o7777 != 0o700 {
		c.find(journal.Problem, FindStateDir, StateDirName, fmt.Sprintf("has mode %04o instead of 0700", st.Mode&0o7777),
			"others may be able to read what was refused or is being written; the next mount sets it right")
	}
	if st.Uid != 0 && st.Uid != root.Uid {
		c.find(journal.Problem, FindStateDir, StateDirName, fmt.Sprintf("belongs to user %d, the data root to user %d", st.Uid, root.Uid),
			"that user can read and change what latchfs relies on; chown it when you know why")
	}
	for _, e := range entries {
		if !knownState(e) {
			c.find(journal.Info, FindUnknown, path.Join(StateDirName, e.name), "not an entry that latchfs makes",
				"nothing uses it, and it is left alone")
		}
	}
	return entries, nil
}

func knownState(e dirent) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(e.name, ballastPrefix))
	ballast := err == nil && n < ballastCount && ballastName(n) == e.name
	return ballast || e.name == LockName || e.name == IgnoreName || e.name == RejectedDir || e.name == history.Dir || journal.Known(e.name) || generated(e.name) ||
		slices.Contains(lessons, strings.TrimSuffix(strings.TrimSuffix(e.name, ".new"), ".broken"))
}

// lessons are files of what a mount has learned, which the data does not depend on:
// who has read what, and which programs write back what they read. They are written
// under a name with ".new", and set aside with ".broken".
var lessons = []string{"knowledge.log", "knowledge.json", "programs.json"}

// look walks over the data root for reserved names, and for the targets of
// commits in place. entries are those of the state directory.
func (c *Checked) look(ctx context.Context, entries []dirent) error {
	for _, in := range c.journal.Pending {
		if in.Kind == journal.KindInPlace {
			c.targets[in.TargetIno]++
		}
	}
	visit := func(dir int, where string, e dirent) error {
		if _, marker := readMark(dir, e); marker {
			return nil // what it is about is found by its directory's intent
		}
		if generated(e.name) && !e.dir {
			c.shadows = append(c.shadows, foundShadow{where, e.name, e.ino})
		} else if c.targets[e.ino] > 0 && !Reserved(e.name) {
			c.lookAt(dir, where, e)
		}
		return nil
	}
	return c.walkAll(ctx, func() {
		c.shadows = c.shadows[:0]
		for _, e := range entries {
			if generated(e.name) && !e.dir {
				c.shadows = append(c.shadows, foundShadow{StateDirName, e.name, e.ino})
			}
		}
	}, visit)
}

// lookAt notes the intents whose target e is.
func (c *Checked) lookAt(dir int, where string, e dirent) {
	fd, err := unix.Openat(dir, e.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	for _, in := range c.journal.Pending {
		if in.Kind == journal.KindInPlace && isTarget(fd, &st, in) {
			c.moved[in.ID] = path.Join(where, e.name)
		}
	}
}
