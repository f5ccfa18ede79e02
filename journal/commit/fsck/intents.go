package fsck

import (
	"fmt"
	"path"
	"slices"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
)

// checkIntents says of each pending intent what the next mount does about it.
func (c *Checked) checkIntents() {
	bad := func(in journal.Intent) bool { return recovery.Plausible(in) != nil }
	if slices.ContainsFunc(c.journal.Pending, bad) {
		c.journal.Lost = true // not to be relied on
	}
	for _, in := range c.journal.Pending {
		c.intents[len(c.Findings)] = in.ID
		file := path.Join(".", in.Dir, in.Name)
		if err := recovery.Plausible(in); err != nil {
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
	switch {
	case shadow && in.Synced:
		return what, describeSynced(in)
	case shadow:
		return what, "it did not come to that: the next mount removes the shadow, and the old version stands"
	}
	return what, forget
}

func describeSynced(in journal.Intent) string {
	aside := "keeps what its writer had synced under " + rejected.Dir + "/"
	if in.Appears {
		return "the next mount lets the file appear as its writer had synced it, or " + aside + " if the name is taken"
	}
	return "it did not come to that: the next mount " + aside + ", and the old version stands"
}

// unlessChanged is what a recovery does where somebody has written the file since.
const unlessChanged = ", and keeps under " + rejected.Dir + "/ what has no place if somebody has written the file since"

func (c *Checked) describeInPlace(in journal.Intent, shadow bool) string {
	target, there := c.moved[in.ID]
	switch {
	case !shadow:
		return "all of it was done or nothing was begun; the next mount forgets it"
	case !there:
		return "the file is gone; the next mount keeps the new version under " + rejected.Dir + "/"
	case target != path.Join(in.Dir, in.Name):
		return fmt.Sprintf("it may be half done; the file is at %q now, and the next mount does all of it there%s", target, unlessChanged)
	}
	return "it may be half done; the next mount does all of it" + unlessChanged
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
	for _, f := range c.shadows {
		if c.isKnown(f) {
			continue
		}
		const what = "a shadow that no intent in the journal stands for"
		switch {
		case c.journal.Lost:
			c.find(journal.Problem, FindOrphan, f.path(), what,
				"its intent may be among the lost records, and the file beside it half written; a repair keeps its bytes under "+rejected.Dir+"/")
		case c.isUnexplained(f):
			c.find(journal.Problem, FindOrphan, f.path(), what,
				"the daemon has stopped cleanly and left none: it came with a copy of the data, or somebody has made it; the next mount does not look for it, and a repair keeps its bytes under "+rejected.Dir+"/")
		default:
			c.find(journal.Recoverable, FindOrphan, f.path(), what, "what it was for did not happen; the next mount removes it")
		}
	}
}

// isKnown reports whether an intent stands for a shadow.
func (c *Checked) isKnown(f foundShadow) bool {
	return slices.ContainsFunc(c.journal.Pending, func(in journal.Intent) bool { return in.Shadow == f.name })
}

// isUnexplained reports whether nothing can have left a shadow: no intent stands for it, and
// the daemon has stopped cleanly.
func (c *Checked) isUnexplained(f foundShadow) bool {
	return c.journal.Clean && f.dir != disk.StateDirName && !c.isKnown(f)
}
