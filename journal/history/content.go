package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// listContents returns the ids of the contents that there are files of.
func (s *Store) listContents() (map[[idSize]byte]bool, error) {
	ids := map[[idSize]byte]bool{}
	return ids, s.eachContentDir(func(_ *os.File, dir string, names []string) {
		for _, name := range names {
			if IsContentID(name) && ContentDir(name) == dir {
				ids[idOf(name)] = true
			}
		}
	})
}

// findContents learns which contents are kept, and removes what nobody can want.
func (s *Store) findContents() error {
	err := s.eachContentDir(func(d *os.File, dir string, names []string) {
		for _, name := range names {
			id, isNew := strings.CutPrefix(name, NewPrefix)
			if !IsContentID(id) || ContentDir(id) != dir {
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
	var all []uint32
	for i := s.queue.first; i != 0; i = s.kept.At(i).age.next {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b uint32) int {
		ka, kb := s.kept.At(a), s.kept.At(b)
		ida, idb := s.x.contents.At(ka.content).id, s.x.contents.At(kb.content).id
		return cmp.Or(cmp.Compare(ka.since, kb.since), bytes.Compare(ida[:], idb[:]))
	})
	s.queue = queue{}
	for _, u := range s.users {
		u.queue = queue{}
	}
	for _, i := range all {
		s.queue.push(&s.kept, i, (*kept).inAge)
		s.users[s.kept.At(i).user].queue.push(&s.kept, i, (*kept).ofUser)
	}
	return nil
}

// eachContentDir calls do for each directory of contents.
func (s *Store) eachContentDir(do func(d *os.File, dir string, names []string)) error {
	if _, err := s.dir.Seek(0, 0); err != nil {
		return err
	}
	dirs, err := s.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if len(dir) != 2 || !isHex(dir) {
			continue
		}
		fd, err := unix.Openat(int(s.dir.Fd()), dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		d := os.NewFile(uintptr(fd), dir)
		names, err := d.Readdirnames(-1)
		if err == nil {
			do(d, dir, names)
		}
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// foundLocked enters the content id, of which there is a file, if it is whole, is named
// by a record and has no other name.
func (s *Store) foundLocked(id string) bool {
	var st unix.Stat_t
	c := s.x.find(idOf(id))
	if c == 0 || s.stat(id, &st) != nil || st.Nlink != 1 || st.Mode&unix.S_IFMT != unix.S_IFREG {
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

func (s *Store) stat(id string, st *unix.Stat_t) error {
	return unix.Fstatat(int(s.dir.Fd()), ContentDir(id)+"/"+id, st, unix.AT_SYMLINK_NOFOLLOW)
}

// hasACL reports whether a content has an ACL; in doubt it has.
func (s *Store) hasACL(id string) bool {
	path := fmt.Sprintf("/proc/self/fd/%d/%s/%s", s.dir.Fd(), ContentDir(id), id)
	_, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}

// enterLocked notes that c is kept.
func (s *Store) enterLocked(c uint32, st *unix.Stat_t) {
	e := s.x.contents.At(c)
	if e.kept != 0 {
		return
	}
	k := kept{
		content: c, ino: st.Ino, since: time.Unix(st.Ctim.Unix()).UnixNano(), blocks: uint32(min(st.Blocks, math.MaxUint32)),
		uid: st.Uid, gid: st.Gid, mode: uint16(st.Mode & 0o7777), acl: s.hasACL(textOf(e.id)),
	}
	if s.x.reading != nil {
		k.reach = s.x.reading.reach[e.id]
	}
	i := s.kept.Add(k)
	e.kept = i
	s.gen++
	s.queue.push(&s.kept, i, (*kept).inAge)
	s.inos.Add(i, s.hashIno)
	s.bytes += k.weight()
	s.countLocked(i)
	for _, o := range s.x.claims(c) {
		f, v := s.x.files.At(o.file), s.x.versions.At(o.version)
		if f.oldest != 0 && v.seq.get() < s.x.versions.At(f.oldest).seq.get() {
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
		c := s.x.find(idOf(ref.Content))
		if c == 0 && f != 0 && s.stat(ref.Content, &st) == nil {
			c = s.recallLocked(f, ref.Content)
		}
		if c != 0 && s.stat(ref.Content, &st) == nil {
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
		for i := s.queue.first; i != 0 && s.kept.At(i).isOlder(old); {
			k := *s.kept.At(i)
			if !s.pinnedLocked(k.content) {
				s.dropLocked(k.content)
			}
			i = k.age.next
		}
	}
	for s.o.MaxBytes > 0 && s.bytes > s.o.MaxBytes {
		i := s.excessLocked()
		if i == 0 {
			return
		}
		s.dropLocked(s.kept.At(i).content)
	}
}

// dropLocked gives a content up. Its file goes a moment later.
func (s *Store) dropLocked(c uint32) {
	e := s.x.contents.At(c)
	if e.kept == 0 {
		return
	}
	i := e.kept
	k := s.kept.At(i)
	s.gen++
	s.bytes -= k.weight()
	s.uncountLocked(i)
	s.queue.remove(&s.kept, i, (*kept).inAge)
	s.inos.Remove(i, s.hashIno)
	s.trash = append(s.trash, garbage{id: e.id, weight: k.weight()})
	e.kept = 0
	s.kept.Drop(i)
	s.x.trim(c)
	s.wake()
}

func (s *Store) hashIno(i uint32) uint32 { return hashOfIno(s.kept.At(i).ino) }

func hashOfIno(ino uint64) uint32 { return uint32(ino * 0x9e3779b97f4a7c15 >> 32) }

// ofInodeLocked is the content that is an inode, 0 if none is: the last one that was
// entered.
func (s *Store) ofInodeLocked(ino uint64) uint32 {
	return s.inos.Find(hashOfIno(ino), func(i uint32) bool { return s.kept.At(i).ino == ino })
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
		i := s.oldestLocked()
		if i == 0 {
			break
		}
		freed += max(s.kept.At(i).weight(), 1)
		s.dropLocked(s.kept.At(i).content)
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
	return s.x.find(idOf(id))
}

// keptLocked is what is known of the content with an id, nil if it is not kept.
func (s *Store) keptLocked(id [idSize]byte) *kept {
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
	i := s.ofInodeLocked(ino)
	if i == 0 {
		return ""
	}
	return textOf(s.x.contents.At(s.kept.At(i).content).id)
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
	if s.stat(id, &st) != nil {
		s.dropLocked(c)
		return
	}
	i := s.x.contents.At(c).kept
	s.inos.Remove(i, s.hashIno)
	s.kept.At(i).ino = st.Ino
	s.inos.Add(i, s.hashIno)
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
