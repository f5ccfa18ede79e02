package locksdir

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"latchfs/fs/report"
)

// snapshot is the state of the lock table at one moment, and what was rendered
// from it. Its records are never written to.
type snapshot struct {
	gen   uint64
	taken time.Time
	// grace is how long the snapshot serves although the table has moved on.
	grace time.Duration
	// stopping: the mount was shutting down.
	stopping bool

	// held is sorted by lock, the records of one lock by token; waiting by
	// lock, the requests for one lock in queue order. Locks on paths come before
	// those with a name.
	held, waiting []*report.Record

	heldTree, waitTree, nameTree func() *dir

	// mu guards texts, and is held while one of them is rendered, so that a
	// thousand readers of one status render it once.
	mu    sync.Mutex
	texts map[textKey][]byte

	viewsMu sync.Mutex       // guards views
	views   map[string]*view // by the viewers' credentials
}

// maxTexts bounds the renderings kept with a snapshot: at 100,000 locks one
// has tens of megabytes.
const maxTexts = 8

// textKey tells renderings of one file for different viewers apart. What does
// not depend on the viewer leaves the viewer's fields zero.
type textKey struct {
	file       string
	privileged bool
	uid        uint32
	pid        int32
}

func takeSnapshot(src Source) *snapshot {
	// The generation comes first: a change while the records are collected
	// then shows as a newer generation.
	s := &snapshot{gen: src.Generation(), taken: src.Now(), stopping: src.Stopping(), texts: map[textKey][]byte{}}
	s.held = inState(report.Held, src.Held())
	slices.SortStableFunc(s.held, func(a, b *report.Record) int {
		return cmp.Or(compareLocks(a, b), cmp.Compare(a.Token, b.Token))
	})
	s.waiting = inState(report.Waiting, src.Waiting())
	slices.SortStableFunc(s.waiting, compareLocks)
	s.growTrees()
	s.grace = s.graceFor(src.Now().Sub(s.taken))
	return s
}

// compareLocks orders records by what they lock: paths, then names.
func compareLocks(a, b *report.Record) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Path, b.Path))
}

// growTrees makes each tree when it is first asked for.
func (s *snapshot) growTrees() {
	heldPaths, heldNames := splitNamed(s.held)
	waitPaths, waitNames := splitNamed(s.waiting)
	s.heldTree = sync.OnceValue(func() *dir { return buildTree(suffixed{heldPaths, report.RecordSuffix}) })
	s.waitTree = sync.OnceValue(func() *dir { return buildTree(suffixed{waitPaths, ""}) })
	s.nameTree = sync.OnceValue(func() *dir {
		return buildTree(suffixed{heldNames, report.RecordSuffix}, suffixed{waitNames, queueSuffix})
	})
}

// splitNamed parts sorted records in those of paths and those of names.
func splitNamed(records []*report.Record) (paths, names []*report.Record) {
	i := slices.IndexFunc(records, func(r *report.Record) bool { return r.Name != "" })
	if i < 0 {
		i = len(records)
	}
	return records[:i], records[i:]
}

// fewRecords is up to how many records a snapshot is cheap whatever it has cost once: the
// next one costs as much again only if the machine is held up again.
const fewRecords = 100

// graceFor is how long from the beginning of its taking what took cost to make from the
// snapshot's records may serve unconditionally: not at all when it was cheap, so that who
// has just released a lock does not find it, else long enough that taking snapshots cannot
// become the machine's main occupation, but never longer than a second once it is complete.
func (s *snapshot) graceFor(cost time.Duration) time.Duration {
	if cost < 2*time.Millisecond || len(s.held)+len(s.waiting) <= fewRecords {
		return 0
	}
	return cost + min(4*cost, maxAgeOpen)
}

// fresh reports whether the snapshot may serve a reader at now, when the
// source's generation is gen and the reader accepts heartbeats as old as maxAge.
func (s *snapshot) fresh(gen uint64, now time.Time, maxAge time.Duration) bool {
	age := now.Sub(s.taken)
	if age < 0 { // the clock was set back
		return false
	}
	return age < s.grace || s.gen == gen && age <= maxAge
}

// text returns the rendering under key, made by render if there is none yet.
func (s *snapshot) text(key textKey, render func() []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.texts[key]
	if !ok {
		b = render()
		if len(s.texts) >= maxTexts {
			clear(s.texts)
		}
		s.texts[key] = b
	}
	return b
}

// jsonKey tells status.json for different viewers apart: by what they may see,
// and those who hold something themselves by their process.
func (s *snapshot) jsonKey(v report.Viewer) textKey {
	key := textKey{file: "status.json", privileged: v.Privileged, uid: v.UID}
	for _, r := range s.held {
		if v.Holds(r) {
			key.pid = v.PID
			break
		}
	}
	return key
}

// report is the snapshot in words.
func (s *snapshot) report(started time.Time) *report.Status {
	return &report.Status{Held: s.held, Waiting: s.waiting, At: s.taken, Started: started, Stopping: s.stopping}
}

// inState points at records, which get state.
func inState(state report.State, records []report.Record) []*report.Record {
	list := make([]*report.Record, len(records))
	for i := range records {
		records[i].State = state
		list[i] = &records[i]
	}
	return list
}

// dir is a directory below held/, names/ or waiting/.
type dir struct {
	dirs  map[string]*dir
	files map[string][]*report.Record
	// unnamed are the files that have no name in files yet.
	unnamed []unnamed
}

// unnamed is a file whose name begins with base and ends in suffix.
type unnamed struct {
	base, suffix string
	group        []*report.Record
}

// suffixed are records sorted by lock, and what the names of their files end in.
type suffixed struct {
	records []*report.Record
	suffix  string
}

// buildTree makes the tree of the records in parts.
func buildTree(parts ...suffixed) *dir {
	root := &dir{}
	for _, part := range parts {
		for records := part.records; len(records) > 0; {
			n := 1
			for n < len(records) && records[n].SameLock(records[0]) {
				n++
			}
			parent, base := root.place(records[0])
			parent.unnamed = append(parent.unnamed, unnamed{base, part.suffix, records[:n:n]})
			records = records[n:]
		}
	}
	root.nameFiles()
	return root
}

// place finds the directory that a record belongs in, making it where it is
// missing, and the last component of its path, "" if it cannot have its own.
func (d *dir) place(r *report.Record) (parent *dir, base string) {
	path := r.ID()
	if !validPath(path) || r.Name != "" && strings.Contains(path, "/") {
		return d, ""
	}
	for {
		name, rest, more := strings.Cut(path, "/")
		if !more {
			return d, name
		}
		child := d.dirs[name]
		if child == nil {
			child = &dir{}
			if d.dirs == nil {
				d.dirs = map[string]*dir{}
			}
			d.dirs[name] = child
		}
		d, path = child, rest
	}
}

// nameFiles gives every file below d its name. Directories keep theirs; files
// that can have their own name come next, so that an odd one never takes it.
func (d *dir) nameFiles() {
	for _, child := range d.dirs {
		child.nameFiles()
	}
	d.files = make(map[string][]*report.Record, len(d.unnamed))
	var odd []unnamed
	for _, f := range d.unnamed {
		name := f.base + f.suffix
		strange := f.base == "" && f.group[0].ID() != ""
		if strange || name == "" || len(name) > maxName || d.taken(name) {
			odd = append(odd, f)
			continue
		}
		d.files[name] = f.group
	}
	for _, f := range odd {
		d.files[oddName(f.base, f.group[0].ID(), f.suffix, d.taken)] = f.group
	}
	d.unnamed = nil
}

func (d *dir) taken(name string) bool {
	return d.dirs[name] != nil || d.files[name] != nil
}

// find walks to path, "" being d itself: a directory, or the records of a file,
// or neither.
func (d *dir) find(path string) (*dir, []*report.Record) {
	for path != "" {
		name, rest, more := strings.Cut(path, "/")
		child := d.dirs[name]
		if child == nil {
			if more {
				return nil, nil
			}
			return nil, d.files[name]
		}
		d, path = child, rest
	}
	return d, nil
}
