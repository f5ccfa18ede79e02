package history

import (
	"slices"

	"latchfs/journal/history/internal/arena"
	"latchfs/journal/history/internal/record"
)

// find is the number of the content with an id, 0 if the index has none.
func (x *index) find(id record.ID) uint32 {
	return x.byID.Find(id.Hash(), func(c uint32) bool { return x.contents.At(c).id == id })
}

// claims are the versions that hold a content.
func (x *index) claims(c uint32) []claim {
	if c == 0 {
		return nil
	}
	if all := x.shared[c]; all != nil {
		return all
	}
	if one := x.contents.At(c).claim; one.version != 0 {
		return []claim{one}
	}
	return nil
}

func (x *index) setClaims(c uint32, all []claim) {
	delete(x.shared, c)
	x.contents.At(c).claim = claim{}
	if len(all) > 0 {
		x.contents.At(c).claim = all[0]
	}
	if len(all) > 1 {
		x.shared[c] = all
	}
}

func (x *index) setClaim(c uint32, old, now claim) {
	all := slices.Clone(x.claims(c))
	all[slices.Index(all, old)] = now
	x.setClaims(c, all)
}

// claim makes a version hold the content with an id, "" for none.
func (x *index) claim(c claim, text string) {
	if text == "" {
		return
	}
	id := record.IDOf(text)
	n := x.find(id)
	if n == 0 {
		n = x.contents.Add(content{id: id, claim: c})
		x.byID.Add(n, x.hashID)
	} else {
		x.setClaims(n, append(slices.Clone(x.claims(n)), c))
	}
	x.versions.At(c.version).content = n
	if x.reading != nil {
		delete(x.reading.size, c.version)
		if x.reading.onDisk[id] {
			x.reading.size[c.version] = x.files.At(c.file).state.Size
		}
	}
}

// unclaim is the end of that.
func (x *index) unclaim(c claim) {
	v := x.versions.At(c.version)
	n := v.content
	if n == 0 {
		return
	}
	v.content = 0
	x.setClaims(n, slices.DeleteFunc(slices.Clone(x.claims(n)), func(o claim) bool { return o.version == c.version }))
	x.trim(n)
}

// trim drops a content that is not kept and will not be: it is neither that of a path's
// last version nor of the one before, which a commit replaces and then keeps.
func (x *index) trim(c uint32) {
	if c == 0 || x.contents.At(c).kept != 0 || x.reading != nil && x.reading.onDisk[x.contents.At(c).id] {
		return
	}
	all := x.claims(c)
	if slices.ContainsFunc(all, x.isRecent) {
		return
	}
	for _, o := range all {
		x.versions.At(o.version).content = 0
	}
	delete(x.shared, c)
	x.byID.Remove(c, x.hashID)
	x.contents.Drop(c)
}

// isRecent reports whether a version is its path's last one, or the one before.
func (x *index) isRecent(c claim) bool {
	last := x.files.At(c.file).last
	return last == c.version || last != 0 && x.versions.At(last).before == c.version
}

// isUnclaimed reports whether no path claims a content any more.
func (x *index) isUnclaimed(c uint32) bool {
	return !slices.ContainsFunc(x.claims(c), func(o claim) bool { return x.versions.At(o.version).flags&released == 0 })
}

// hasRead is called when the log has been read, and what is kept is known.
func (x *index) hasRead() {
	x.reading = nil
	for c := uint32(1); c <= x.contents.Size(); c++ {
		if x.contents.At(c).id != (record.ID{}) {
			x.trim(c)
		}
	}
	x.fading = slices.DeleteFunc(x.fading, func(e fade) bool { return !x.isEnd(e) })
}

// isEnd reports whether a path is as it was when it went.
func (x *index) isEnd(e fade) bool {
	f := x.files.At(e.file)
	return f.last != 0 && x.last(e.file).seq == arena.OffsetOf(e.seq)
}
