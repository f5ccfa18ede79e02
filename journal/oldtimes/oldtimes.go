// Package oldtimes remembers the times (st_ctime and st_mtime of stat(2)) that inodes had before
// the daemon did something to them that is nobody's change, and after. The former are shown for
// as long as the inode has the latter.
//
// A new file gets its name in a commit, which changes nothing that a program did, and the
// program may have noted the time before it closed the file: git compares what fstat said then
// with what stat says later, and takes a difference for a change. A file that replaces another
// has a new inode number as well, so nothing is gained there; and a backup that ran between the
// last write and the commit finds the new version by its change time.
//
// A directory loses names that nobody has seen, up to a second after the change for which they
// were there: tar compares what it has seen of a directory with what it sees when it is done.
package oldtimes

import "golang.org/x/sys/unix"

// Table remembers what inodes K show, of one kind of time. The zero Table remembers nothing. Its user guards it.
type Table[K comparable] struct {
	of   map[K]times
	ring []K // in the order of their commits, from next on
	next int
}

// times are those of changes with nothing between them, the first and the last of which gave
// the inode these.
type times struct{ before, first, last unix.Timespec }

// Max bounds how many inodes are remembered. Whoever has noted the time of an inode that is
// forgotten takes it for changed, and reads it once more.
const Max = 1 << 15

// Note notes that the daemon has given an inode another time.
func (t *Table[K]) Note(of K, before, after unix.Timespec) {
	if before == after {
		return // both within one tick of the clock
	}
	if t.of == nil {
		t.of = make(map[K]times)
	}
	known, again := t.of[of]
	if !again {
		if len(t.ring) < Max {
			t.ring = append(t.ring, of)
		} else {
			delete(t.of, t.ring[t.next])
			t.ring[t.next] = of
			t.next = (t.next + 1) % Max
		}
	}
	switch {
	case !again || known.last != before:
		known = times{before, after, after}
	case known.last.Nano() < after.Nano():
		known.last = after
	default: // the clock was set back
		known.first, known.last = after, after
	}
	t.of[of] = known
}

// Shown is the time to show for an inode that has this one, or had it when somebody looked
// who asks only now.
func (t *Table[K]) Shown(of K, has unix.Timespec) unix.Timespec {
	if known, ok := t.of[of]; ok && known.first.Nano() <= has.Nano() && has.Nano() <= known.last.Nano() {
		return known.before
	}
	return has
}
