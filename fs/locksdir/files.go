package locksdir

import (
	"slices"
	"syscall"
	"time"

	"latchfs/fs/report"
)

// topFile is a file at the root of the tree.
type topFile struct {
	name string
	// open returns the content and when it changed last. maxAge bounds the age
	// of the snapshot it is rendered from.
	open func(t *Tree, v report.Viewer, maxAge time.Duration) (Content, time.Time)
}

// topFiles are the files at the root.
var topFiles = [...]topFile{
	{"README", func(t *Tree, _ report.Viewer, _ time.Duration) (Content, time.Time) {
		return newText(readme), t.src.Started()
	}},
	{"policy", func(t *Tree, _ report.Viewer, _ time.Duration) (Content, time.Time) {
		return newText(t.src.Policy()), t.src.Started()
	}},
	{"programs", func(t *Tree, v report.Viewer, _ time.Duration) (Content, time.Time) {
		return newText(t.src.Programs(v)), t.src.Now()
	}},
	{"status", func(t *Tree, v report.Viewer, maxAge time.Duration) (Content, time.Time) {
		s := t.seenBy(t.snapshot(maxAge), v)
		render := func() []byte { return s.report(t.src.Started()).Text() }
		return newText(s.text(textKey{file: "status"}, render)), s.taken
	}},
	{"status.json", func(t *Tree, v report.Viewer, maxAge time.Duration) (Content, time.Time) {
		s := t.seenBy(t.snapshot(maxAge), v)
		render := func() []byte { return s.report(t.src.Started()).JSON(v) }
		return newText(s.text(s.jsonKey(v), render)), s.taken
	}},
	{"why", func(t *Tree, v report.Viewer, _ time.Duration) (Content, time.Time) {
		list := newestFirst(t.src.Why(v))
		mtime := t.src.Started()
		if len(list) > 0 {
			mtime = list[0].Time
		}
		return newText(report.Why(list, v, t.src.Now().Location())), mtime
	}},
	{historyFile, func(t *Tree, v report.Viewer, _ time.Duration) (Content, time.Time) {
		l := t.historyText(v)
		return l.content(t, v), l.taken
	}},
	{eventsFile, func(t *Tree, v report.Viewer, _ time.Duration) (Content, time.Time) {
		return t.eventsFor(v), t.lastEvent(t.src.Events().Size())
	}},
}

// newestFirst sorts a list that the caller owns.
func newestFirst(list []report.Refusal) []report.Refusal {
	slices.SortStableFunc(list, func(a, b report.Refusal) int { return b.Time.Compare(a.Time) })
	return list
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

// branch is one of the trees that show the lock table.
type branch struct {
	name string
	// dirMode is the permissions of its directories.
	dirMode uint32
	tree    func(*snapshot) *dir
}

// Permissions. Whether the removal of a lock's record is right is for
// Source.Release to say; the kernel asks the directory's permissions first and
// must let the request through.
var branches = [...]branch{
	{"held", 0o777, func(s *snapshot) *dir { return s.heldTree() }},
	{"names", 0o777, func(s *snapshot) *dir { return s.nameTree() }},
	{"waiting", 0o555, func(s *snapshot) *dir { return s.waitTree() }},
}

// kind is what a file of a branch shows of a group of records.
type kind struct {
	mode   uint32
	render func(b []byte, group []*report.Record, v report.Viewer) []byte
	// mtime is when the file changed last.
	mtime func(*report.Record) time.Time
}

// A lock's record belongs to its holder's user.
var (
	holders = kind{0o644, report.AppendHolders, (*report.Record).Heartbeat}
	queue   = kind{0o444, report.AppendQueue, func(r *report.Record) time.Time { return r.Since }}
)

func kindOf(group []*report.Record) kind {
	if group[0].State == report.Waiting {
		return queue
	}
	return holders
}

// render appends the content of the file of group.
func render(b []byte, group []*report.Record, v report.Viewer) []byte {
	return kindOf(group).render(b, group, v)
}

func findBranch(name string) (branch, bool) {
	i := slices.IndexFunc(branches[:], func(b branch) bool { return b.name == name })
	if i < 0 {
		return branch{}, false
	}
	return branches[i], true
}

func latest(group []*report.Record, of func(*report.Record) time.Time) time.Time {
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
func (br branch) find(s *snapshot, path string) (*dir, []*report.Record, error) {
	d, group := br.tree(s).find(path)
	if d == nil && group == nil {
		return nil, nil, syscall.ENOENT
	}
	return d, group, nil
}

func (br branch) dirEntry(name string, mtime time.Time) Entry {
	return Entry{Name: name, Dir: true, Mode: br.dirMode, Mtime: mtime}
}

func fileEntry(name string, group []*report.Record, size int) Entry {
	k := kindOf(group)
	return Entry{
		Name:  name,
		Mode:  k.mode,
		UID:   group[0].UID,
		Size:  int64(size),
		Mtime: latest(group, k.mtime),
	}
}
