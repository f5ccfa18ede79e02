package advisory

import (
	"testing"

	"latchfs/lockmgr"
)

// What a lock is on depends on how the inode stands to its name, and on the kind of lock.
func TestKey(t *testing.T) {
	with := func(n *inode, change func(*inode)) *inode { change(n); return n }
	for name, c := range map[string]struct {
		n            *inode
		flock, posix lockmgr.Key
	}{
		"a file":                    {newInode("a"), "a", "a"},
		"a file of a group":         {newInode("group/a"), "//group/g", "group/a"},
		"a session's":               {with(newInode("group/a"), func(n *inode) { n.is.InSession, n.is.Linked, n.live = true, true, "x" }), "//group/g", "group/a"},
		"one without a name":        {with(newInode("a"), func(n *inode) { n.is.Unnamed, n.live = true, "x" }), "//inode/a", "//inode/a"},
		"a directory":               {with(newInode("a"), func(n *inode) { n.is.Regular = false }), "//inode/a", "//inode/a"},
		"a live file":               {with(newInode("a"), func(n *inode) { n.live, n.is.Linked = "//inode/now", true }), "//inode/now", "//inode/now"},
		"one of several names":      {with(newInode("group/a"), func(n *inode) { n.is.Linked = true }), "//inode/group/a", "//inode/group/a"},
		"a lock file":               {newInode("a.lock"), "a", "a.lock"},
		"a lock file in a group":    {newInode("group/a.lock"), "//group/g", "group/a.lock"},
		"one of a file in a group":  {newInode("other/a.lock"), "//group/g", "other/a.lock"},
		"a session's lock file":     {with(newInode("a.lock"), func(n *inode) { n.is.InSession = true }), "a", "a.lock"},
		"a lock file that is gone":  {with(newInode("a.lock"), func(n *inode) { n.is.Unnamed = true }), "//inode/a.lock", "//inode/a.lock"},
		"a lock file of a live one": {newInode("live.lock"), "//inode/live", "live.lock"},
		"a lock file of nothing":    {newInode(".lock"), ".lock", ".lock"},
		"a lock directory":          {with(newInode("a.lock"), func(n *inode) { n.is.Regular = false }), "a", "//inode/a.lock"},
	} {
		onStage(t, func(s *stage) {
			s.keyAt["live"] = "//inode/live"
			f := s.open(1, c.n)
			if k := s.Key(f, lockmgr.Flock); k != c.flock {
				t.Errorf("%s: a flock is on %s, want %s", name, k, c.flock)
			}
			if k := s.Key(f, lockmgr.Posix); k != c.posix {
				t.Errorf("%s: a range of bytes is on %s, want %s", name, k, c.posix)
			}
		})
	}
}
