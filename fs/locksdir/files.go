package locksdir

import (
	"slices"
	"syscall"
	"time"
)

// topFile is a file at the root of the tree.
type topFile struct {
	name string
	// open returns the content and when it changed last. maxAge bounds the age
	// of the snapshot it is rendered from.
	open func(t *Tree, v Viewer, maxAge time.Duration) (Content, time.Time)
}

// topFiles are the files at the root.
var topFiles = [...]topFile{
	{"README", func(t *Tree, _ Viewer, _ time.Duration) (Content, time.Time) {
		return newText(readme), t.src.Started()
	}},
	{"policy", func(t *Tree, _ Viewer, _ time.Duration) (Content, time.Time) {
		return newText(t.src.Policy()), t.src.Started()
	}},
	{"status", func(t *Tree, _ Viewer, maxAge time.Duration) (Content, time.Time) {
		s := t.snapshot(maxAge)
		render := func() []byte { return s.status(t.src.Started()) }
		return newText(s.text(textKey{file: "status"}, render)), s.taken
	}},
	{"status.json", func(t *Tree, v Viewer, maxAge time.Duration) (Content, time.Time) {
		s := t.snapshot(maxAge)
		render := func() []byte { return s.statusJSON(t.src.Started(), v) }
		return newText(s.text(s.jsonKey(v), render)), s.taken
	}},
	{"why", func(t *Tree, v Viewer, _ time.Duration) (Content, time.Time) {
		list := newestFirst(t.src.Why(v))
		mtime := t.src.Started()
		if len(list) > 0 {
			mtime = list[0].Time
		}
		return newText(renderWhy(list, v, t.src.Now().Location())), mtime
	}},
	{"events.jsonl", func(t *Tree, _ Viewer, _ time.Duration) (Content, time.Time) {
		log := t.src.Events()
		return growing{log}, t.lastEvent(log.Size())
	}},
}

func findTopFile(name string) (topFile, bool) {
	for _, f := range topFiles {
		if f.name == name {
			return f, true
		}
	}
	return topFile{}, false
}

// growing is the Content of the audit trail.
type growing struct{ EventLog }

func (growing) Close() error { return nil }

// branch is one of the two trees that look like the data.
type branch struct {
	name string
	// dirMode and fileMode are the permissions of everything in it.
	dirMode, fileMode uint32
	tree              func(*snapshot) *dir
	render            func(b []byte, group []*Record, v Viewer) []byte
	// mtime is when the file of a group changed last.
	mtime func(group []*Record) time.Time
}

const (
	heldBranch    = "held"
	waitingBranch = "waiting"
)

// Permissions. A lock's record belongs to its holder's user, and whether its
// removal is right is for Source.Release to say; the kernel asks the directory's
// permissions first and must let the request through.
var branches = [...]branch{
	{
		name: heldBranch, dirMode: 0o777, fileMode: 0o644,
		tree:   func(s *snapshot) *dir { return s.heldTree() },
		render: appendHeld,
		mtime: func(group []*Record) time.Time {
			return latest(group, (*Record).heartbeat)
		},
	},
	{
		name: waitingBranch, dirMode: 0o555, fileMode: 0o444,
		tree:   func(s *snapshot) *dir { return s.waitTree() },
		render: appendQueue,
		mtime: func(group []*Record) time.Time {
			return latest(group, func(r *Record) time.Time { return r.Since })
		},
	},
}

func findBranch(name string) (branch, bool) {
	i := slices.IndexFunc(branches[:], func(b branch) bool { return b.name == name })
	if i < 0 {
		return branch{}, false
	}
	return branches[i], true
}

func latest(group []*Record, of func(*Record) time.Time) time.Time {
	var t time.Time
	for _, r := range group {
		if u := of(r); u.After(t) {
			t = u
		}
	}
	return t
}

// find returns the directory or the records at path in snapshot s, "" being the
// branch's own directory.
func (br branch) find(s *snapshot, path string) (*dir, []*Record, error) {
	d, group := br.tree(s).find(path)
	if d == nil && group == nil {
		return nil, nil, syscall.ENOENT
	}
	return d, group, nil
}

func (br branch) dirEntry(name string, mtime time.Time) Entry {
	return Entry{Name: name, Dir: true, Mode: br.dirMode, Mtime: mtime}
}

func (br branch) fileEntry(name string, group []*Record, size int) Entry {
	return Entry{
		Name:  name,
		Mode:  br.fileMode,
		UID:   group[0].UID,
		Size:  int64(size),
		Mtime: br.mtime(group),
	}
}
