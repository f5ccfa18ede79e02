package history

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// findContents learns which contents are kept, and removes what nobody can want.
func (s *Store) findContents() error {
	dirs, err := s.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if len(dir) != 2 || !isHex(dir) {
			continue
		}
		if err := s.findIn(dir); err != nil {
			return err
		}
	}
	slices.SortFunc(s.queue, func(a, b *content) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.id, b.id))
	})
	for _, c := range s.queue {
		s.order++
		c.order = s.order
	}
	for _, u := range s.users {
		slices.SortFunc(u.queue, func(a, b *content) int { return cmp.Compare(a.order, b.order) })
	}
	return nil
}

func (s *Store) findIn(dir string) error {
	fd, err := unix.Openat(int(s.dir.Fd()), dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, isNew := strings.CutPrefix(name, NewPrefix)
		if !IsContentID(id) || ContentDir(id) != dir {
			continue // not ours
		}
		if isNew || !s.foundLocked(id) {
			_ = unix.Unlinkat(fd, name, 0)
		}
	}
	return nil
}

// foundLocked enters the content id if it is whole, is named by a record and has
// no other name.
func (s *Store) foundLocked(id string) bool {
	var st unix.Stat_t
	c := s.x.contents[id]
	if c == nil || s.stat(id, &st) != nil || st.Nlink != 1 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	whole := false
	for _, e := range c.refs {
		fits := e.State.Size == st.Size || e.file.loose && e.current()
		whole = whole || fits
		e.released = !fits
	}
	if whole {
		s.enterLocked(c, &st)
	}
	return whole
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
func (s *Store) enterLocked(c *content, st *unix.Stat_t) {
	if c.kept {
		return
	}
	s.order++
	c.kept, c.weight, c.size, c.ino = true, st.Blocks*512, st.Size, st.Ino
	c.since, c.order = time.Unix(st.Ctim.Unix()), s.order
	c.rights = Rights{UID: st.Uid, GID: st.Gid, Mode: st.Mode & 0o7777, ACL: s.hasACL(c.id)}
	s.gen++
	s.queue = append(s.queue, c)
	s.inos[c.ino] = c
	s.bytes += c.weight
	s.countLocked(c)
	for _, e := range c.refs {
		for e.file.oldest > 0 && e.file.versions[e.file.oldest].seq > e.seq {
			e.file.oldest--
		}
	}
}

// Keep tells that the content ref.Content of path has come into the history, and
// drops what goes beyond the bounds: most is how many contents the path keeps.
func (s *Store) Keep(path string, ref Ref, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var st unix.Stat_t
	if c := s.x.contents[ref.Content]; c != nil && s.stat(c.id, &st) == nil {
		s.enterLocked(c, &st)
	}
	if f := s.x.paths[path]; f != nil {
		s.pruneLocked(f, most)
	}
	s.boundLocked()
}

// pruneLocked leaves a path the newest of its contents.
func (s *Store) pruneLocked(f *file, most int) {
	n := 0
	first := len(f.versions)
	for i := len(f.versions) - 1; i >= f.oldest; i-- {
		e := f.versions[i]
		if !e.kept() {
			continue
		}
		if n++; n <= most {
			first = i
			continue
		}
		s.gen++
		e.released = true
		s.releaseLocked(e.c)
	}
	f.oldest = min(first, len(f.versions)-1)
}

// releaseLocked drops a content that no path claims any more.
func (s *Store) releaseLocked(c *content) {
	if !slices.ContainsFunc(c.refs, func(e *entry) bool { return !e.released }) {
		s.dropLocked(c)
	}
}

// boundLocked drops the contents that are too old, and while all together are too
// many the oldest of the user who has most.
func (s *Store) boundLocked() {
	old := time.Time{}
	if s.o.MaxAge > 0 {
		old = s.o.Now().Add(-s.o.MaxAge)
	}
	for c := s.oldestLocked(); c != nil && c.since.Before(old); c = s.oldestLocked() {
		s.dropLocked(c)
	}
	for s.o.MaxBytes > 0 && s.bytes > s.o.MaxBytes {
		c := s.excessLocked()
		if c == nil {
			return
		}
		s.dropLocked(c)
	}
}

// oldestLocked is the content that was kept first, nil if there is none.
func (s *Store) oldestLocked() *content {
	for len(s.queue) > 0 {
		if s.queue[0].kept {
			return s.queue[0]
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
	}
	return nil
}

// dropLocked gives a content up. Its file goes a moment later.
func (s *Store) dropLocked(c *content) {
	if !c.kept {
		return
	}
	c.kept = false
	s.gen++
	s.bytes -= c.weight
	s.uncountLocked(c)
	if s.inos[c.ino] == c {
		delete(s.inos, c.ino)
	}
	s.trash = append(s.trash, c)
	if len(c.refs) == 0 {
		delete(s.x.contents, c.id)
	}
	s.wake()
}

// Takes reports whether content of that size can be kept at all.
func (s *Store) Takes(size int64) bool { return s.o.MaxBytes <= 0 || size <= s.o.MaxBytes }

// Free removes the oldest contents of whoever has most until that many bytes have been given back,
// and returns how many have.
func (s *Store) Free(bytes int64) (freed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.trash {
		freed += max(c.weight, 1)
	}
	for freed < bytes {
		c := s.excessLocked()
		if c == nil {
			break
		}
		freed += max(c.weight, 1)
		s.dropLocked(c)
	}
	s.emptyLocked()
	for _, c := range s.trash {
		freed -= max(c.weight, 1)
	}
	return freed
}

// Drop gives up one content: it is not what its record says.
func (s *Store) Drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.x.contents[id]; c != nil {
		s.dropLocked(c)
	}
	s.emptyLocked()
}

// emptyTrash removes the files of what was dropped. When it returns they are gone,
// unless that failed: a full btrfs has no space for it. Then the next one tries again.
func (s *Store) emptyTrash() {
	s.emptying.Lock()
	defer s.emptying.Unlock()
	var left []*content
	for {
		s.mu.Lock()
		if len(s.trash) == 0 {
			s.trash = left
			s.mu.Unlock()
			return
		}
		c := s.trash[0]
		s.trash[0] = nil
		s.trash = s.trash[1:]
		s.mu.Unlock()
		if !s.removeFile(c) {
			left = append(left, c)
		}
	}
}

// erased makes sure that the file of a content is gone for good.
func (s *Store) erased(c *content) error {
	var st unix.Stat_t
	if err := s.stat(c.id, &st); err == nil {
		return fmt.Errorf("history: the content %s cannot be removed", c.id)
	}
	dir, err := unix.Openat(int(s.dir.Fd()), ContentDir(c.id), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("history: %w", os.NewSyscallError("openat", err))
	}
	defer unix.Close(dir)
	return os.NewSyscallError("fsync", unix.Fsync(dir))
}

func (s *Store) emptyLocked() {
	s.trash = slices.DeleteFunc(s.trash, s.removeFile)
}

// removeFile reports whether the file of a content needs no further removing.
func (s *Store) removeFile(c *content) bool {
	if c.kept {
		return true // it has come back
	}
	s.o.Removing(c.id)
	err := unix.Unlinkat(int(s.dir.Fd()), ContentDir(c.id)+"/"+c.id, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return true
	}
	if !c.stuck {
		s.o.Logf("history: cannot remove a content: %v", err)
		c.stuck = true
	}
	return false
}

// OfInode returns the id of the content that is this inode of the state
// directory's filesystem, "" if none is.
func (s *Store) OfInode(ino uint64) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.inos[ino]; c != nil {
		return c.id
	}
	return ""
}

// Renewed tells that another inode is in the place of a content, or none.
func (s *Store) Renewed(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.x.contents[id]
	if c == nil || !c.kept {
		return
	}
	var st unix.Stat_t
	if s.stat(id, &st) != nil {
		s.dropLocked(c)
		return
	}
	delete(s.inos, c.ino)
	c.ino = st.Ino
	s.inos[c.ino] = c
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
