package lazy

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// pending is a set of that many commits, of a file each.
func pending(n uint64) *Set {
	s := New(nil)
	for i := range n {
		l := &Commit{key: disk.Inode{Dev: 1, Ino: 1 + i}, dirKey: disk.Inode{Dev: 1, Ino: 1 + n + i%10}, Mark: Mark{seq: i, name: fmt.Sprint(i)}}
		s.byIno[l.key] = l
		s.waiting.Add(1)
	}
	return s
}

// Whoever is about to rename one file, or drops one from the history, does not pay for all
// that are pending.
func TestSettleOfWhatIsNotPending(t *testing.T) {
	const few = 5
	s := pending(1000)
	for what, ask := range map[string]func(){
		"a file":          func() { _ = s.Settle(&unix.Stat_t{Dev: 1, Ino: 5000}) },
		"a content":       func() { s.SettleKept("0123456789abcdef") },
		"a directory":     func() { _ = s.settleWhere(func(l *Commit) bool { return l.dirKey.Ino == 5000 }, s.durably) },
		"what takes room": func() { s.chains(func(l *Commit) bool { return l.intent.ID != 0 }) },
	} {
		if n := testing.AllocsPerRun(10, ask); n > few {
			t.Errorf("%s that nothing is pending of: %v allocations", what, n)
		}
	}
}

// Of the files that match all commits are found, the oldest first, but for one that is being
// renamed.
func TestChains(t *testing.T) {
	s := pending(40)
	same := func(ino, as uint64) *Commit {
		l, of := s.byIno[disk.Inode{Dev: 1, Ino: ino}], s.byIno[disk.Inode{Dev: 1, Ino: as}]
		l.dirKey, l.name = of.dirKey, of.name
		return l
	}
	same(11, 1)
	same(21, 1).seq = 0
	s.byIno[disk.Inode{Dev: 1, Ino: 1}].seq = 5
	same(31, 1).moving = make(chan struct{})
	chains := s.chains(func(l *Commit) bool { return l.key.Ino == 11 || l.key.Ino == 2 || l.key.Ino == 31 })
	got := map[string]bool{}
	for _, chain := range chains {
		text := ""
		for _, l := range chain {
			text += fmt.Sprintf("%d ", l.key.Ino)
		}
		got[text] = true
	}
	if len(chains) != 2 || !got["2 "] || !got["21 1 11 "] {
		t.Errorf("%v", got)
	}
}
