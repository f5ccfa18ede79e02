package history

import (
	"slices"
	"time"

	"latchfs/journal/history/internal/arena"
	"latchfs/journal/history/internal/names"
	"latchfs/journal/history/internal/record"
)

// index is what the records add up to. It does no I/O: what is not needed to enter a
// version, or to find out what goes, is read from the log when somebody asks.
type index struct {
	names    *names.Tree // the value of a path is the number of its file
	files    arena.Arena[file]
	versions arena.Arena[version]
	contents arena.Arena[content]
	byID     arena.Table
	// shared has, for a content of several versions, all of them.
	shared map[uint32][]claim
	// reading is what is known only while the log is read.
	reading *reading

	records int
	seq     int64
	merged  int64  // how many paths got the versions of another one
	fading  []fade // ends of paths that are gone, oldest first
}

// file is a path with versions.
type file struct {
	node   uint32
	last   uint32 // its last version; the others follow by version.before
	oldest uint32 // no version before this one is kept, if it is not 0
	loose  bool   // size and mtime of the last version are in flux
	number uint64 // of the last version
	state  State  // of the last version
}

// version is what is known of a version beside what its record says.
type version struct {
	record arena.Offset // where its record is in the log
	state  arena.Offset // where the one is that tells its state since; 0 if there is none
	seq    arena.Offset // tells the order of all versions
	flags  uint8
	number uint32 // the low bits
	user   uint32 // in whose share it counts
	// content is 0 if the version is no file, or if no content of it can be kept any more.
	content uint32
	before  uint32 // the path's version before it, 0 if there is none
}

// The flags of a version.
const (
	isGone   uint8 = 1 << iota // the path holds nothing from then on
	released                   // the path gives its claim to the content up, which may be another path's still
	renewed                    // the content is not the one that its record names
	marked                     // to be dropped
)

// content is what versions of one or several paths hold. The index has those that are
// kept, and those that may come to be: of a path's last version, and the one before.
type content struct {
	id    record.ID
	claim claim
	kept  uint32 // number in Store.kept, 0 if it is not kept
}

// claim is a version of a path that holds a content; 0 stands for none.
type claim struct{ version, file uint32 }

// fade is the end of a path that is gone.
type fade struct {
	file uint32
	seq  int64
	at   time.Time
}

// reading is what is known while the log is read: it says which contents there are
// files of.
type reading struct {
	onDisk map[record.ID]bool
	reach  map[record.ID]arena.Offset // where its record is
	size   map[uint32]int64           // of the versions that have such a content
}

func newIndex() *index {
	x := &index{shared: map[uint32][]claim{}}
	x.names = names.New(func(file, node uint32) { x.files.At(file).node = node })
	return x
}

// file is the number of a path with versions, 0 if it has none.
func (x *index) file(path string) uint32 {
	n := x.names.Find(path)
	if n == 0 {
		return 0
	}
	return x.names.Value(n)
}

func (x *index) path(file uint32) string { return x.names.Path(x.files.At(file).node) }

// last is the last version of a path that has any.
func (x *index) last(file uint32) *version { return x.versions.At(x.files.At(file).last) }

// gone reports whether the path holds nothing.
func (x *index) gone(file uint32) bool { return x.last(file).flags&isGone != 0 }

// number is the whole number of a version.
func (x *index) number(f *file, v *version) uint64 {
	return f.number - uint64(uint32(f.number)-v.number)
}

// current reports whether a version is what its path holds.
func (x *index) current(c claim) bool {
	return x.files.At(c.file).last == c.version && !x.gone(c.file)
}

// kept reports whether the content of a version can be had. That of a path's present
// version is where the path leads.
func (x *index) kept(c claim) bool {
	v := x.versions.At(c.version)
	return v.content != 0 && x.contents.At(v.content).kept != 0 && v.flags&released == 0 && !x.current(c)
}

// all calls do for each path that has versions.
func (x *index) all(do func(file uint32)) {
	for i := uint32(1); i <= x.files.Size(); i++ {
		if x.files.At(i).last != 0 {
			do(i)
		}
	}
}

// of calls do for the versions of a path, newest first, until it says false.
func (x *index) of(file uint32, do func(claim, *version) bool) {
	for i := x.files.At(file).last; i != 0; {
		v := x.versions.At(i)
		before := v.before
		if !do(claim{i, file}, v) {
			return
		}
		i = before
	}
}

// apply adds to the index the record that is at a place of the log.
func (x *index) apply(at int64, r *record.Record) {
	switch r.Op {
	case record.OpVersion:
		x.add(at, r)
	case record.OpState:
		if f := x.file(string(r.Path)); f != 0 && !x.gone(f) {
			x.setState(f, at, r)
		}
	case record.OpReach:
		if id := record.IDOf(r.Content); x.reading != nil && x.reading.onDisk[id] {
			x.reading.reach[id] = arena.OffsetOf(at)
		}
	case record.OpMove:
		x.names.Move(string(r.Path), r.To.String(), x.merge)
	case record.OpExchange:
		x.names.Exchange(string(r.Path), r.To.String())
	case record.OpForget:
		if f := x.file(string(r.Path)); f != 0 {
			x.forget(f)
		}
	}
}

// add appends a version to its path. One whose number does not rise begins anew: what
// came before was dropped.
func (x *index) add(at int64, r *record.Record) claim {
	n := x.names.Make(string(r.Path))
	i := x.names.Value(n)
	if i != 0 && r.Number <= x.files.At(i).number {
		x.forget(i)
		n, i = x.names.Make(string(r.Path)), 0
	}
	if i == 0 {
		i = x.files.Add(file{node: n})
		x.names.Set(n, i)
	}
	f := x.files.At(i)
	x.seq++
	v := version{record: arena.OffsetOf(at), seq: arena.OffsetOf(x.seq), number: uint32(r.Number), user: userOf(r), before: f.last}
	if Event(r.Event).gone() {
		v.flags = isGone
		x.fading = append(x.fading, fade{i, x.seq, time.Unix(0, r.Time)})
	}
	c := claim{x.versions.Add(v), i}
	f.last, f.number, f.state, f.loose = c.version, r.Number, stateOf(r), false
	x.claim(c, r.Content)
	x.records++
	if v.before != 0 {
		if old := x.versions.At(v.before).before; old != 0 {
			x.trim(x.versions.At(old).content)
		}
	}
	return c
}

// setState notes what the last version of a path has become, as the record says that is
// at a place of the log.
func (x *index) setState(i uint32, at int64, r *record.Record) {
	f := x.files.At(i)
	v := x.versions.At(f.last)
	f.state, f.loose, v.state = stateOf(r), r.Loose, arena.OffsetOf(at)
	c := claim{f.last, i}
	if r.Content != "" && (v.content == 0 || x.contents.At(v.content).id != record.IDOf(r.Content)) {
		x.unclaim(c)
		x.claim(c, r.Content)
		v.flags |= renewed
	}
	if x.reading != nil {
		if _, counts := x.reading.size[f.last]; counts {
			x.reading.size[f.last] = r.Size
		}
	}
}

// forget drops a path with all its versions. Contents that nobody refers to any more
// stay as long as they are kept.
func (x *index) forget(i uint32) {
	for x.files.At(i).last != 0 {
		f := x.files.At(i)
		v := f.last
		x.unclaim(claim{v, i})
		f.last = x.versions.At(v).before
		x.versions.Drop(v)
		x.records--
	}
	n := x.files.At(i).node
	x.files.Drop(i)
	x.names.Clear(n)
}

// removeMarked drops the versions of a path that are marked, of which the last is none.
func (x *index) removeMarked(i uint32) {
	f := x.files.At(i)
	f.oldest = 0
	later := x.versions.At(f.last)
	for n := later.before; n != 0; {
		v := x.versions.At(n)
		before := v.before
		if v.flags&marked != 0 {
			x.unclaim(claim{n, i})
			x.versions.Drop(n)
			x.records--
			later.before = before
		} else {
			later = v
		}
		n = before
	}
}

// merge gives a path's versions to another path, which has earlier ones.
func (x *index) merge(moved, there uint32) {
	i, old := x.names.Value(moved), x.names.Value(there)
	x.names.Set(there, i)
	f := x.files.At(i)
	f.node = there
	if old == 0 {
		return
	}
	x.merged++
	before, end := *x.files.At(old), x.last(i).seq
	x.of(old, func(c claim, v *version) bool {
		for _, o := range x.claims(v.content) {
			if o.version == c.version {
				x.setClaim(v.content, o, claim{o.version, i})
			}
		}
		return true
	})
	x.files.Drop(old)
	var chain []uint32
	x.of(i, func(c claim, v *version) bool {
		v.number += uint32(before.number)
		chain = append(chain, c.version)
		return true
	})
	for _, n := range slices.Backward(chain) {
		x.seq++ // numbers rise with it
		x.versions.At(n).seq = arena.OffsetOf(x.seq)
	}
	x.versions.At(chain[len(chain)-1]).before = before.last
	f.number += before.number
	f.oldest = 0
	for k := range x.fading {
		if x.fading[k].file == i && arena.OffsetOf(x.fading[k].seq) == end {
			x.fading[k].seq = x.seq
		}
	}
	for _, n := range chain { // those that were the first two are not any more
		x.trim(x.versions.At(n).content)
	}
	x.trim(x.versions.At(before.last).content)
	if b := x.versions.At(before.last).before; b != 0 {
		x.trim(x.versions.At(b).content)
	}
}

// isWorthless reports whether a path that is gone can be dropped: nothing is kept of it
// but what a path that is there keeps as well.
func (x *index) isWorthless(i uint32) bool {
	if !x.gone(i) {
		return false
	}
	worthless := true
	x.of(i, func(c claim, v *version) bool {
		worthless = !x.kept(c) || slices.ContainsFunc(x.claims(v.content), func(o claim) bool {
			return o.file != i && !x.gone(o.file) && x.versions.At(o.version).flags&released == 0
		})
		return worthless
	})
	return worthless
}

func (x *index) hashID(c uint32) uint32 { return x.contents.At(c).id.Hash() }
