// Package ctimes remembers the change times (st_ctime of stat(2)) that new files had before
// the commit that gave them their names, and after. The commit changed nothing that a program
// did, and the program may have noted the time before it closed the file: git compares what
// fstat said then with what stat says later, and takes a difference for a change. So the
// former is shown for as long as the inode has the latter.
//
// A file that replaces another has a new inode number as well, so nothing is gained there;
// and a backup that ran between the last write and the commit finds the new version by its
// change time.
package ctimes

import "golang.org/x/sys/unix"

// Table remembers what inodes K show. The zero Table remembers nothing. Its user guards it.
type Table[K comparable] struct {
	of   map[K]times
	ring []K // in the order of their commits, from next on
	next int
}

type times struct{ before, after unix.Timespec }

// Max bounds how many inodes are remembered. Whoever has noted the time of a file that is
// forgotten takes it for changed, and reads it once more.
const Max = 1 << 15

// Note notes that a commit has given an inode another change time.
func (t *Table[K]) Note(of K, before, after unix.Timespec) {
	if before == after {
		return // both within one tick of the clock
	}
	if t.of == nil {
		t.of = make(map[K]times)
	}
	if _, again := t.of[of]; !again {
		if len(t.ring) < Max {
			t.ring = append(t.ring, of)
		} else {
			delete(t.of, t.ring[t.next])
			t.ring[t.next] = of
			t.next = (t.next + 1) % Max
		}
	}
	t.of[of] = times{before, after}
}

// Shown is the change time to show for an inode that has this one.
func (t *Table[K]) Shown(of K, ctime unix.Timespec) unix.Timespec {
	if known, ok := t.of[of]; ok && ctime == known.after {
		return known.before
	}
	return ctime
}
