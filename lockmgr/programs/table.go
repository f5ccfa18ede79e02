// Package programs learns which programs write back what they read, so that only
// their reads claim (the policy's lost-update = "adaptive", DESIGN 6). A program is
// an executable, with its script where it is an interpreter: what was learned of one
// outlives its processes and the daemon's.
//
// It is pure like the lock table: reads and new versions go in, and whether a read
// claims comes out; it does no I/O and has no clock.
//
// # What is learned
//
// A program has written back what it read when a version of a path is read by one
// process and the next is made by the same process, by a descendant, or by one with
// which it shares a near ancestor: `jq . f > t && mv t f`. Of several reads of the
// path the most closely related counts, so that the workers of one script are not
// taken for each other. From then on the program claims. After so many claims in a row
// that nothing came of (Forgets) it no longer does, until it writes back again.
package programs

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"latchfs/lockmgr"
)

const (
	// Forgets is after how many claims in vain a program no longer claims.
	Forgets = 20
	// maxPrograms bounds the table.
	maxPrograms = 1024
	// maxPaths bounds the paths of which reads are remembered.
	maxPaths = 4096
	// maxReads bounds the reads of one path that are remembered.
	maxReads = 16
)

// Who is a process with its nearest relatives, the nearest first.
type Who struct {
	Self      lockmgr.Owner
	Relatives []lockmgr.Owner
}

// Program is what is known of a program.
type Program struct {
	Name   string    `json:"name"`
	UID    uint32    `json:"uid"`    // of whoever ran it last
	Claims bool      `json:"claims"` // its reads claim
	Seen   time.Time `json:"seen"`   // its last read
	Reads  uint64    `json:"reads"`
	// Written is how often it has written back what it had read, and Path and At the
	// last time.
	Written uint64    `json:"written"`
	Path    string    `json:"path,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Claimed is how many of its reads have claimed. InVain is how many claims in a
	// row nothing has come of.
	Claimed uint64 `json:"claimed"`
	InVain  uint64 `json:"in_vain"`
}

// read is one that may turn out to have been for a write.
type read struct {
	program string
	who     Who
	at      time.Time
}

// Table is what has been learned. Its methods may be called from several goroutines.
type Table struct {
	mu       sync.Mutex
	programs map[string]*Program
	reads    map[string][]read // by path, the oldest first
}

// New returns a table that knows nothing.
func New() *Table { return &Table{programs: map[string]*Program{}, reads: map[string][]read{}} }

// Read notes that a process reads a path, and says whether its program's reads claim.
func (t *Table) Read(now time.Time, path, program string, uid uint32, who Who) (claims bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.programs[program]
	if p == nil {
		t.makeRoom()
		p = &Program{Name: program}
		t.programs[program] = p
	}
	p.Reads++
	p.UID, p.Seen = uid, now
	t.note(path, read{program, who, now})
	return p.Claims
}

// note remembers a read, once for each process and program.
func (t *Table) note(path string, r read) {
	list := slices.DeleteFunc(t.reads[path], func(o read) bool { return o.program == r.program && o.who.Self == r.who.Self })
	if len(list) == maxReads {
		list = slices.Delete(list, 0, 1)
	}
	if len(list) == 0 && len(t.reads) >= maxPaths {
		for any := range t.reads { // of whatever path: most reads are for nothing
			delete(t.reads, any)
			break
		}
	}
	t.reads[path] = append(list, r)
}

// Wrote notes that a process has made a new version of a path. Reads that are older
// than fade do not count. It reports whether a program claims from now on that did
// not.
func (t *Table) Wrote(now time.Time, path string, who Who, fade time.Duration) (learned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	best, nearest := "", -1
	for _, r := range t.reads[path] {
		if d := distance(&who, &r.who); d >= 0 && now.Sub(r.at) <= fade && (nearest < 0 || d <= nearest) {
			best, nearest = r.program, d
		}
	}
	delete(t.reads, path) // what was read is no longer current
	p := t.programs[best]
	if nearest < 0 || p == nil {
		return false
	}
	p.Written++
	p.Path, p.At, p.InVain = path, now, 0
	learned = !p.Claims
	p.Claims = true
	return learned
}

// Moved notes that a directory has got another path, or that two have exchanged
// theirs: what was read below goes along.
func (t *Table) Moved(from, to string, exchanged bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moving := map[string][]read{}
	take := func(from, to string) {
		for path, list := range t.reads {
			if rest, ok := strings.CutPrefix(path, from); ok && (rest == "" || rest[0] == '/') {
				moving[to+rest] = list
				delete(t.reads, path)
			}
		}
	}
	take(from, to)
	if exchanged {
		take(to, from)
	}
	for path, list := range moving {
		for _, r := range list {
			t.note(path, r)
		}
	}
}

// distance is how far up the common ancestor of a writer and a reader is, counted
// from both; -1 where they have none.
func distance(writer, reader *Who) int {
	up := func(w *Who, i int) (lockmgr.Owner, bool) {
		switch {
		case i == 0:
			return w.Self, w.Self != lockmgr.Owner{}
		case i <= len(w.Relatives):
			return w.Relatives[i-1], true
		}
		return lockmgr.Owner{}, false
	}
	nearest := -1
	for i := 0; ; i++ {
		a, ok := up(writer, i)
		if !ok {
			return nearest
		}
		for j := 0; ; j++ {
			b, ok := up(reader, j)
			if !ok {
				break
			}
			if a == b && (nearest < 0 || i+j < nearest) {
				nearest = i + j
			}
		}
	}
}

// Claimed notes that a program's read has claimed.
func (t *Table) Claimed(program string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.programs[program]; p != nil {
		p.Claimed++
	}
}

// Ended notes what came of a program's claim. It reports whether the program has
// claimed in vain for the last time.
func (t *Table) Ended(program string, used bool) (forgotten bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.programs[program]
	switch {
	case p == nil:
		return false
	case used:
		p.InVain = 0
		return false
	}
	p.InVain++
	if !p.Claims || p.InVain < Forgets {
		return false
	}
	p.Claims, p.InVain = false, 0
	return true
}

// makeRoom forgets the program that was not seen for the longest, if need be; one
// that claims comes last.
func (t *Table) makeRoom() {
	if len(t.programs) < maxPrograms {
		return
	}
	oldest := slices.MinFunc(t.list(), func(a, b Program) int {
		if a.Claims != b.Claims {
			if b.Claims {
				return -1
			}
			return 1
		}
		return a.Seen.Compare(b.Seen)
	})
	delete(t.programs, oldest.Name)
}

func (t *Table) list() []Program {
	all := make([]Program, 0, len(t.programs))
	for _, p := range t.programs {
		all = append(all, *p)
	}
	return all
}

// List returns all programs, those that claim first, and by name.
func (t *Table) List() []Program {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.list()
	slices.SortFunc(all, func(a, b Program) int {
		if a.Claims != b.Claims {
			if a.Claims {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all
}
