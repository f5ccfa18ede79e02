package history

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/history/internal/contents"
	"latchfs/journal/history/internal/record"
	"latchfs/journal/history/internal/shelf"
)

// findContents learns which contents are kept, and removes what nobody can want.
func (s *Store) findContents() error {
	err := s.files().Each(func(d *os.File, dir string, names []string) {
		for _, name := range names {
			id, isNew := strings.CutPrefix(name, NewPrefix)
			if !contents.IsName(dir, id) {
				continue // not ours
			}
			if isNew || !s.foundLocked(id) {
				_ = unix.Unlinkat(int(d.Fd()), name, 0)
			}
		}
	})
	if err != nil {
		return err
	}
	s.x.hasRead()
	s.kept.Sort(func(a, b *shelf.Item) int {
		ida, idb := s.x.contents.At(a.Content).id, s.x.contents.At(b.Content).id
		return cmp.Or(cmp.Compare(a.Since, b.Since), bytes.Compare(ida[:], idb[:]))
	})
	return nil
}

// foundLocked enters the content id, of which there is a file, if it is whole, is named
// by a record and has no other name.
func (s *Store) foundLocked(id string) bool {
	var st unix.Stat_t
	c := s.x.find(record.IDOf(id))
	if c == 0 || s.files().Stat(id, &st) != nil || st.Nlink != 1 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	whole := false
	for _, o := range s.x.claims(c) {
		v := s.x.versions.At(o.version)
		v.flags &^= released
		switch {
		case s.x.reading.size[o.version] == st.Size:
			whole = true
		case s.x.files.At(o.file).loose && s.x.current(o):
			whole = true
			s.settling = append(s.settling, settled{o.file, StateOf(&st)})
		default:
			v.flags |= released
		}
	}
	if whole {
		s.enterLocked(c, &st)
	}
	return whole
}

// settled is a path with what was found of its last version, which was in flux.
type settled struct {
	file uint32
	now  State
}

// settle notes the size of the contents whose version was in flux. When another version
// follows, a content is whole by its size alone.
func (s *Store) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.settling {
		if c := s.x.last(f.file).content; len(s.x.claims(c)) == 1 {
			s.changedLocked(f.file, s.x.files.At(f.file).state.Ino, f.now, true)
		}
	}
	s.settling = nil
}

// enterLocked notes that c is kept.
func (s *Store) enterLocked(c uint32, st *unix.Stat_t) {
	e := s.x.contents.At(c)
	if e.kept != 0 {
		return
	}
	it := shelf.Item{
		Content: c, User: st.Uid, Ino: st.Ino, Since: time.Unix(st.Ctim.Unix()).UnixNano(), Blocks: uint32(min(st.Blocks, math.MaxUint32)),
		UID: st.Uid, GID: st.Gid, Mode: uint16(st.Mode & 0o7777), ACL: s.files().HasACL(e.id.String()),
	}
	if all := s.x.claims(c); len(all) > 0 { // the share of whoever has made its first version
		it.User = s.x.versions.At(all[0].version).user
	}
	if s.x.reading != nil {
		it.Reach = s.x.reading.reach[e.id]
	}
	e.kept = s.kept.Add(it)
	s.gen++
	for _, o := range s.x.claims(c) {
		f, v := s.x.files.At(o.file), s.x.versions.At(o.version)
		if f.oldest != 0 && v.seq.Number() < s.x.versions.At(f.oldest).seq.Number() {
			f.oldest = o.version
		}
	}
}

// Keep tells that the content ref.Content of path has come into the history, and
// drops what goes beyond the bounds: most is how many contents the path keeps.
func (s *Store) Keep(path string, ref Ref, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.x.file(path)
	if IsContentID(ref.Content) {
		var st unix.Stat_t
		c := s.x.find(record.IDOf(ref.Content))
		if c == 0 && f != 0 && s.files().Stat(ref.Content, &st) == nil {
			c = s.recallLocked(f, ref.Content)
		}
		if c != 0 && s.files().Stat(ref.Content, &st) == nil {
			s.enterLocked(c, &st)
		}
	}
	if f != 0 {
		s.pruneLocked(f, most)
	}
	s.boundLocked()
}

// recallLocked looks for the version of a path that has a content which the index has
// given up: a commit that was found unfinished keeps it late. It reads the log.
func (s *Store) recallLocked(f uint32, id string) (content uint32) {
	q := s.queryLocked()
	defer q.r.Close()
	s.x.of(f, func(c claim, v *version) bool {
		q.asked = q.asked[:0]
		q.addLocked(c)
		if v.content == 0 && q.recordOf(&q.asked[0]).Content == id {
			s.x.claim(c, id)
			content = v.content
		}
		return content == 0
	})
	return content
}

// pruneLocked leaves a path the newest of its contents.
func (s *Store) pruneLocked(i uint32, most int) {
	f := s.x.files.At(i)
	n, first, stop := 0, f.last, f.oldest
	var drop []uint32
	s.x.of(i, func(c claim, v *version) bool {
		if s.x.kept(c) {
			if n++; n <= most || s.pinnedLocked(v.content) {
				first = c.version
			} else {
				s.gen++
				v.flags |= released
				drop = append(drop, v.content)
			}
		}
		return c.version != stop
	})
	f.oldest = first
	for _, c := range drop {
		s.releaseLocked(c)
	}
}

// releaseLocked drops a content that no path claims any more.
func (s *Store) releaseLocked(c uint32) {
	if s.x.isUnclaimed(c) {
		s.dropLocked(c)
	}
}

// boundLocked drops the contents that are too old, and while all together are too
// many the oldest of the user who has most. If all of that user's are pinned there are too
// many for a while: nobody else is to lose anything by it.
func (s *Store) boundLocked() {
	if s.o.MaxAge > 0 {
		old := s.o.Now().Add(-s.o.MaxAge)
		for it := range s.kept.OldestFirst() {
			if !it.IsOlder(old) {
				break
			}
			if !s.staysLocked(it) {
				s.dropLocked(it.Content)
			}
		}
	}
	for s.o.MaxBytes > 0 && s.kept.Bytes() > s.o.MaxBytes {
		it := s.kept.OfHeaviest(s.staysLocked)
		if it == nil {
			return
		}
		s.dropLocked(it.Content)
	}
}

// dropLocked gives a content up. Its file goes a moment later.
func (s *Store) dropLocked(c uint32) {
	e := s.x.contents.At(c)
	if e.kept == 0 {
		return
	}
	s.gen++
	s.trash = append(s.trash, garbage{id: e.id, weight: s.kept.At(e.kept).Weight()})
	s.kept.Drop(e.kept)
	e.kept = 0
	s.x.trim(c)
	s.wake()
}

// Takes reports whether content of that size can be kept at all.
func (s *Store) Takes(size int64) bool { return s.o.MaxBytes <= 0 || size <= s.o.MaxBytes }

// Free removes the oldest contents of whoever has most until that many bytes have been given back,
// and returns how many have. What is pinned stays.
func (s *Store) Free(bytes int64) (freed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.trash {
		freed += max(g.weight, 1)
	}
	for freed < bytes {
		it := s.kept.Oldest(s.staysLocked)
		if it == nil {
			break
		}
		freed += max(it.Weight(), 1)
		s.dropLocked(it.Content)
	}
	s.emptyLocked()
	for _, g := range s.trash {
		freed -= max(g.weight, 1)
	}
	return freed
}

// Drop gives up one content: it is not what its record says.
func (s *Store) Drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.findLocked(id); c != 0 {
		s.dropLocked(c)
	}
	s.emptyLocked()
}

// findLocked is the number of the content with an id, 0 if the index has none.
func (s *Store) findLocked(id string) uint32 {
	if !IsContentID(id) {
		return 0
	}
	return s.x.find(record.IDOf(id))
}

// keptLocked is what is known of the content with an id, nil if it is not kept.
func (s *Store) keptLocked(id record.ID) *shelf.Item {
	if c := s.x.find(id); c != 0 && s.x.contents.At(c).kept != 0 {
		return s.kept.At(s.x.contents.At(c).kept)
	}
	return nil
}

// OfInode returns the id of the content that is this inode of the state
// directory's filesystem, "" if none is.
func (s *Store) OfInode(ino uint64) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.kept.OfInode(ino)
	if i == 0 {
		return ""
	}
	return s.x.contents.At(s.kept.At(i).Content).id.String()
}

// Renewed tells that another inode is in the place of a content, or none.
func (s *Store) Renewed(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.findLocked(id)
	if c == 0 || s.x.contents.At(c).kept == 0 {
		return
	}
	var st unix.Stat_t
	if s.files().Stat(id, &st) != nil {
		s.dropLocked(c)
		return
	}
	s.kept.Renew(s.x.contents.At(c).kept, st.Ino)
}
