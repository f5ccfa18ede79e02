package history

import (
	"slices"
	"strings"
	"time"
)

// index is what the records add up to. It does no I/O.
type index struct {
	paths    map[string]*file
	contents map[string]*content
	records  int
	seq      uint64
	// renamed counts how often the set of paths has changed.
	renamed uint64
}

// file is a path and its versions, oldest first; there is at least one.
type file struct {
	path     string
	versions []*entry
	oldest   int  // no version before this one is kept
	loose    bool // size and mtime of the last version are in flux
}

// entry is a version in the index.
type entry struct {
	Version
	file *file
	seq  uint64   // place in the log
	c    *content // nil of a version that is no file
	// released: the path gives its claim to the content up, which may be another
	// path's still.
	released bool
}

// content is what versions of one or several paths hold.
type content struct {
	id     string
	refs   []*entry
	kept   bool
	weight int64     // bytes on disk
	size   int64     // bytes of content
	ino    uint64    // its inode in the history
	reach  Reach     // when it was kept
	rights Rights    // its own, which count once the file has no other place
	since  time.Time // when it was kept
	order  uint64    // among the contents that are kept
	user   uint32    // in whose share it counts while it is kept
	stuck  bool      // its file could not be removed, and that was told
}

func newIndex() *index {
	return &index{paths: map[string]*file{}, contents: map[string]*content{}}
}

func (f *file) last() *entry { return f.versions[len(f.versions)-1] }

// gone reports whether the path holds nothing.
func (f *file) gone() bool { return f.last().Event.gone() }

// kept reports whether the content of e can be had. That of a path's present
// version is where the path leads.
func (e *entry) kept() bool { return e.c != nil && e.c.kept && !e.released && !e.current() }

// current reports whether e is what its path holds.
func (e *entry) current() bool { return !e.Event.gone() && e.file.last() == e }

// apply adds a record to the index.
func (x *index) apply(r *record) {
	switch r.Op {
	case opVersion:
		x.add(r.version())
	case opState:
		if f := x.paths[string(r.Path)]; f != nil && !f.gone() {
			e := f.last()
			e.State, f.loose = r.state(), r.Loose
			if r.Content != "" {
				x.unref(e)
				e.Content = r.Content
				x.ref(e)
			}
		}
	case opReach:
		if c := x.contents[r.Content]; c != nil {
			c.reach = r.reach()
		}
	case opMove:
		x.moveAll(string(r.Path), r.To.string(), false)
	case opExchange:
		x.moveAll(string(r.Path), r.To.string(), true)
	case opForget:
		if f := x.paths[string(r.Path)]; f != nil {
			x.forget(f)
		}
	}
}

// add appends a version to its path. One whose number does not rise begins anew:
// what came before was dropped.
func (x *index) add(v Version) *entry {
	f := x.paths[v.Path]
	if f != nil && v.Number <= f.last().Number {
		x.forget(f)
		f = nil
	}
	if f == nil {
		f = &file{path: v.Path}
		x.paths[v.Path] = f
		x.renamed++
	}
	v.Path = f.path // one string for all
	x.seq++
	e := &entry{Version: v, file: f, seq: x.seq}
	if v.Content != "" {
		x.ref(e)
	}
	f.versions = append(f.versions, e)
	f.loose = false
	x.records++
	return e
}

// forget drops a path with all its versions. Contents that nobody refers to any
// more stay in x.contents as long as they are kept.
func (x *index) forget(f *file) {
	for _, e := range f.versions {
		x.unref(e)
	}
	x.records -= len(f.versions)
	delete(x.paths, f.path)
	x.renamed++
}

// remove drops one version that is not its path's last.
func (x *index) remove(e *entry) {
	i := slices.Index(e.file.versions, e)
	e.file.versions = slices.Delete(e.file.versions, i, i+1)
	e.file.oldest = 0
	x.unref(e)
	x.records--
}

// ref makes e refer to the content of its id.
func (x *index) ref(e *entry) {
	e.c = x.contents[e.Content]
	if e.c == nil {
		e.c = &content{id: e.Content}
		x.contents[e.Content] = e.c
	}
	e.c.refs = append(e.c.refs, e)
}

func (x *index) unref(e *entry) {
	c := e.c
	if c == nil {
		return
	}
	c.refs = slices.DeleteFunc(c.refs, func(r *entry) bool { return r == e })
	if len(c.refs) == 0 && !c.kept {
		delete(x.contents, c.id)
	}
}

// moveAll renames all paths below a directory, and with exchange those below the
// other one, too.
func (x *index) moveAll(from, to string, exchange bool) {
	moved := x.below(from)
	var back []*file
	if exchange {
		back = x.below(to)
	}
	for _, f := range slices.Concat(moved, back) {
		delete(x.paths, f.path)
	}
	for _, f := range moved {
		x.enter(f, to+strings.TrimPrefix(f.path, from))
	}
	for _, f := range back {
		x.enter(f, from+strings.TrimPrefix(f.path, to))
	}
	x.renamed++
}

func (x *index) below(dir string) []*file {
	var found []*file
	for path, f := range x.paths {
		if strings.HasPrefix(path, dir+"/") {
			found = append(found, f)
		}
	}
	return found
}

// enter gives f another path. Where versions of something earlier have it, those
// of f come behind them.
func (x *index) enter(f *file, path string) {
	f.path = path
	before := x.paths[path]
	x.paths[path] = f
	var add uint64
	if before != nil {
		add = before.last().Number
		f.versions = append(before.versions, f.versions...)
		f.oldest = 0
	}
	for i, e := range f.versions {
		e.Path, e.file = path, f
		if before != nil && i >= len(before.versions) {
			x.seq++ // numbers rise with it
			e.seq = x.seq
			e.Number += add
			if e.Base > 0 {
				e.Base += add
			}
		}
	}
}

// isWorthless reports whether a path that is gone can be dropped: nothing is kept
// of it but what a path that is there keeps as well.
func (f *file) isWorthless() bool {
	if !f.gone() {
		return false
	}
	return !slices.ContainsFunc(f.versions, func(e *entry) bool {
		return e.kept() && !slices.ContainsFunc(e.c.refs, func(o *entry) bool {
			return o.file != f && !o.file.gone() && !o.released
		})
	})
}
