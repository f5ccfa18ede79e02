package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"latchfs/journal"
	"latchfs/journal/history"
	"latchfs/journal/statedir"

	"golang.org/x/sys/unix"
)

// LockName is the file in the state directory that whoever uses the data root
// holds a flock on.
const LockName = "daemon.lock"

// IgnoreName is the file in the state directory that keeps git from adding it to a
// repository at the data root while nothing is mounted.
const IgnoreName = ".gitignore"

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

	s       *Store // without a journal
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
	c := &Checked{s: NewStore(rootfd, stateDir, nil), intents: map[int]uint64{},
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
	if err := readDir(c.s.stateFD(), func(e dirent) error { entries = append(entries, e); return nil }); err != nil {
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
	if err := errors.Join(unix.Fstat(c.s.stateFD(), &st), unix.Fstat(c.s.root, &root)); err != nil {
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
var lessons = []string{"knowledge.json", "programs.json"}

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
	return c.s.walkAll(ctx, func() {
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

// checkIntents says of each pending intent what the next mount does about it.
func (c *Checked) checkIntents() {
	bad := func(in journal.Intent) bool { return plausible(in) != nil }
	if slices.ContainsFunc(c.journal.Pending, bad) {
		c.journal.Lost = true // not to be relied on
	}
	for _, in := range c.journal.Pending {
		c.intents[len(c.Findings)] = in.ID
		file := path.Join(".", in.Dir, in.Name)
		if err := plausible(in); err != nil {
			c.find(journal.Problem, FindBadIntent, file, fmt.Sprintf("intent %d: %v", in.ID, err), "no mount goes on from here")
			continue
		}
		what, means := c.describe(in)
		severity := journal.Recoverable
		if c.journal.Lost {
			severity, means = journal.Problem, c.describeLost(in)
		}
		if in.Txn != 0 {
			what += fmt.Sprintf(" (part of transaction %d)", in.Txn)
		}
		c.find(severity, FindIntent, file, fmt.Sprintf("intent %d: %s", in.ID, what), means)
	}
}

// decided reports whether in is part of a transaction that is to happen.
func (c *Checked) decided(in journal.Intent) bool {
	return in.Txn != 0 && slices.ContainsFunc(c.journal.Pending, func(d journal.Intent) bool {
		return d.Kind == journal.KindTxn && d.Txn == in.Txn
	})
}

// toRedo reports whether recovery makes in happen, rather than undo it.
func (c *Checked) toRedo(in journal.Intent) bool {
	return in.Kind == journal.KindInPlace && in.Txn == 0 || c.decided(in) && in.Kind != journal.KindShadow
}

// describe says what in is about, and what Recover does.
func (c *Checked) describe(in journal.Intent) (what, means string) {
	at := slices.IndexFunc(c.shadows, func(f foundShadow) bool { return f.name == in.Shadow })
	shadow := at >= 0
	redo := c.toRedo(in)
	const forget = "nothing of it is left to do but to forget it"
	switch in.Kind {
	case journal.KindInPlace:
		what, means = "the file was being updated in place", c.describeInPlace(in, shadow)
		if redo {
			return what, means
		}
	case journal.KindShadow:
		what = "the file was being written"
	case journal.KindReplace:
		what = "the file was being replaced"
		switch {
		case redo && shadow:
			return what, "it is decided: the next mount does it"
		case shadow && in.ShadowIno != 0 && c.shadows[at].ino == in.TargetIno:
			return what, "it was; the next mount puts the old version into the history, or removes it"
		}
	case journal.KindRemove:
		if redo {
			return "the name was being removed", "it is decided: the next mount does it, unless it is done"
		}
		return "the name was to be removed", "it did not come to that, and the next mount forgets it"
	case journal.KindMade:
		if redo {
			return "the name was made", forget
		}
		return "the name was made", "it did not come to what it was for: the next mount takes it away"
	case journal.KindAppend:
		return "records were being appended", "the next mount cuts off the last one if it is not complete"
	case journal.KindLazy:
		return "commits that waited for no sync", "the next mount takes back what is not whole of them"
	case journal.KindTxn:
		return "all changes were decided", "the next mount does what is missing of them"
	default:
		return fmt.Sprintf("a change of kind %q", in.Kind), "the next mount deals with it, or says why not"
	}
	if shadow {
		return what, "it did not come to that: the next mount removes the shadow, and the old version stands"
	}
	return what, forget
}

func (c *Checked) describeInPlace(in journal.Intent, shadow bool) string {
	target, there := c.moved[in.ID]
	switch {
	case !shadow:
		return "all of it was done or nothing was begun; the next mount forgets it"
	case !there:
		return "the file is gone; the next mount keeps the new version under " + RejectedDir + "/"
	case target != path.Join(in.Dir, in.Name):
		return fmt.Sprintf("it may be half done; the file is at %q now, and the next mount does all of it there", target)
	}
	return "it may be half done; the next mount does all of it"
}

// describeLost says what a repair does about in when records are lost.
func (c *Checked) describeLost(in journal.Intent) string {
	const unsure = "the journal does not say whether it was finished; a repair "
	switch {
	case c.toRedo(in):
		return unsure + "finishes it if it was not, and keeps what is there now"
	case in.Kind == journal.KindAppend:
		return "where its last complete record ends is not known; a repair leaves the file as it is"
	case in.Kind == journal.KindMade, in.Kind == journal.KindRemove:
		return unsure + "leaves the name as it is"
	}
	return unsure + "leaves the file as it is, and keeps the shadow's bytes"
}

// checkOrphans reports the shadows that no intent stands for.
func (c *Checked) checkOrphans() {
	known := map[string]bool{}
	for _, in := range c.journal.Pending {
		known[in.Shadow] = true
	}
	for _, f := range c.shadows {
		if known[f.name] {
			continue
		}
		const what = "a shadow that no intent in the journal stands for"
		switch {
		case c.journal.Lost:
			c.find(journal.Problem, FindOrphan, f.path(), what,
				"its intent may be among the lost records, and the file beside it half written; a repair keeps its bytes under "+RejectedDir+"/")
		case c.journal.Clean && f.dir != StateDirName:
			c.find(journal.Problem, FindOrphan, f.path(), what,
				"the daemon has stopped cleanly and should have left none; the next mount does not look for it")
		default:
			c.find(journal.Recoverable, FindOrphan, f.path(), what, "what it was for did not happen; the next mount removes it")
		}
	}
}

// checkRejected examines the rejected store.
func (c *Checked) checkRejected() error {
	store, err := statedir.OpenDir(c.s.stateFD(), RejectedDir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(store)
	return readDir(store, func(e dirent) error {
		where := path.Join(StateDirName, RejectedDir, e.name)
		var st unix.Stat_t
		content := unix.Fstatat(store, e.name+"/"+RejectedContent, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
			st.Mode&unix.S_IFMT == unix.S_IFREG
		switch half := strings.HasPrefix(e.name, rejectedNew); {
		case half && content:
			c.find(journal.Recoverable, FindHalfRejected, where, "refused bytes that were being put aside",
				"a crash came in between; the bytes are there, and the next mount gives the entry its name")
		case half:
			c.find(journal.Recoverable, FindHalfRejected, where, "refused bytes were to be put aside here",
				"a crash came before; the next mount removes the entry")
		case !content && beingRemoved(store, e.name):
			c.find(journal.Recoverable, FindHalfRejected, where, "refused bytes that were old enough to go are gone",
				"a crash came in between; the next mount removes the rest of the entry")
		case !content:
			c.find(journal.Problem, FindRejected, where, "has no content", "the refused bytes are gone")
		default:
			c.checkMeta(store, e.name, where)
		}
		return nil
	})
}

// checkMeta reads what is known about an entry of the rejected store. Without it
// the bytes are kept all the same: a full disk may have been the reason.
func (c *Checked) checkMeta(store int, id, where string) {
	fd, err := unix.Openat(store, id+"/"+RejectedMeta, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return
	}
	where = path.Join(where, RejectedMeta)
	if err != nil {
		c.find(journal.Problem, FindRejected, where, err.Error(), "why the bytes were refused is not known")
		return
	}
	f := os.NewFile(uintptr(fd), RejectedMeta)
	defer f.Close()
	b, err := io.ReadAll(f)
	var meta map[string]any
	if err == nil && len(bytes.Trim(b, "\x00")) == 0 {
		// What is kept is not synced.
		c.find(journal.Info, FindRejected, where, "is empty: a power cut has taken it",
			"why the bytes were refused is not known")
		return
	}
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err != nil {
		c.find(journal.Problem, FindRejected, where, "cannot be read: "+err.Error(),
			"why the bytes were refused is not known; they are there")
	}
}
