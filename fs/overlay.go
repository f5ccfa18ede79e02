package fs

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit"
)

// This file is about edits of large files where the disk has no clones. A shadow that has
// not got the old content lies over the committed file: it has what was written, at its
// place, and everything else is read from there. At the close the parts that were written
// are committed in place, if nobody else has the committed file open. Otherwise, and
// whenever anything needs the whole content, the shadow gets the rest (fillLocked), and is
// published as any other.
//
// For as long as the parts are being written into the file, opens through the mount wait,
// and a lease (F_SETLEASE, fcntl(2)) keeps everybody else from opening it, so that nobody
// sees half an edit. After a crash the
// recovery finishes the edit, before anybody is let in.

const (
	// maxParts bounds how many parts a commit in place may have: the journal names each.
	maxParts = 1024
	// maxEdited bounds how many bytes it writes, while others wait to open the file.
	maxEdited = 64 << 20
)

// beginEdit keeps the file from being opened through the mount until end is called, and the
// shadow for good; false if somebody has the file open, or the shadow to read it. s.mu is
// held.
func (s *session) beginEdit() (end func(), ok bool) {
	f, key := s.f, s.baseKey
	if !s.editsLocked() {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.inodes[key]; n != nil && n.isOpenLocked() || s.inode.opensLocked() > s.inode.writers {
		return nil, false
	}
	s.inode.sparse = true
	done := make(chan struct{})
	f.editing[key] = done
	return func() {
		f.mu.Lock()
		delete(f.editing, key)
		f.mu.Unlock()
		close(done)
	}, true
}

// opensLocked counts the handles at the nodes of n. FS.mu is held.
func (n *inode) opensLocked() (opens int) {
	for _, k := range n.nodes {
		opens += k.opens
	}
	return opens
}

// isSparse reports whether n is a shadow that has not all content and never will.
func (f *FS) isSparse(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.sparse
}

// awaitsEdit waits until n is not a file that is being edited, nor a shadow of which that
// is made. Afterwards it may be another file's node.
func (f *FS) awaitsEdit(n *inode) bool {
	f.mu.Lock()
	edit := f.editing[n.key]
	if n.sparse && n.sess != nil {
		edit = n.sess.left
	}
	f.mu.Unlock()
	if edit == nil {
		return false
	}
	<-edit
	return true
}

// forgetContent makes the kernel forget the pages of a file, if it knows that.
func (f *FS) forgetContent(key inoKey) {
	f.mu.Lock()
	n := f.inodes[key]
	if n != nil {
		n.pins++
	}
	f.mu.Unlock()
	if n != nil {
		f.notifyInode(n, 0, -1)
		f.unpin(n)
	}
}

// errShared says that somebody has the file open that was to be written in place.
var errShared = errors.New("the file is open elsewhere")

// overlaysLocked reports whether a write of that part may lie over the committed file.
// s.mu is held.
func (s *session) overlaysLocked(p journal.Part) bool {
	if s.filled || s.baseFD < 0 || s.state != stateWriting || !s.mayEditLocked() {
		return false
	}
	return len(s.parts) < maxParts && s.parts.Bytes()+p.End-p.Start <= maxEdited
}

// mayEditLocked reports whether nothing but the users of the file stands against a commit
// in place of what was written. s.mu is held.
func (s *session) mayEditLocked() bool {
	return !s.inPlace && !s.copied && s.baseVersion != nil && s.txn.Load() == nil && s.merge == nil &&
		s.settings.Validate == nil && !s.shadow.Secured() && s.baseMode&(unix.S_ISUID|unix.S_ISGID) == 0
}

// wroteLocked notes which part of the shadow was written. s.mu is held.
func (s *session) wroteLocked(p journal.Part) {
	if s.filled || p.Start >= p.End {
		return
	}
	end := s.baseVersion.Size
	if n := len(s.parts); n > 0 {
		end = max(end, s.parts[n-1].End)
	}
	p.Start = min(p.Start, end) // what lies between the end and a write behind it is zeros
	s.parts = s.parts.Add(p)
}

// readOverlaid reads from the shadow what was written, and from the committed file what
// lies between. over is false if the shadow has all content.
func (s *session) readOverlaid(buf []byte, at int64) (n int, over bool, e unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filled || len(s.parts) == 0 || s.baseFD < 0 {
		return 0, false, 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return 0, true, errnoOf(err)
	}
	want := journal.Part{Start: at, End: min(at+int64(len(buf)), st.Size)}
	if want.Start >= want.End {
		return 0, true, 0
	}
	err := s.parts.Each(want, func(p journal.Part, written bool) error {
		fd := s.baseFD
		if written {
			fd = s.shadow.FD()
		}
		return readFull(fd, buf[p.Start-at:p.End-at], p.Start)
	})
	if err != nil {
		return 0, true, errnoOf(err)
	}
	return int(want.End - want.Start), true, 0
}

// readFull fills b, with zeros from the end of the file on.
func readFull(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pread(fd, b, at)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			clear(b)
			return nil
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// editsLocked reports whether the commit may write the parts in place. s.mu is held.
func (s *session) editsLocked() bool {
	return len(s.parts) > 0 && !s.filled && s.state == stateEnding && !s.copies && s.mayEditLocked()
}

// fillUnlessEditsLocked is fillLocked before a commit that is not to write the parts in
// place, for all that is known so far. s.mu is held.
func (s *session) fillUnlessEditsLocked() unix.Errno {
	if s.editsLocked() {
		return 0
	}
	return s.fillLocked()
}

// edit writes the parts of the shadow into the file, and refuses with errShared if anybody
// else has that open. s.mu is held.
func (s *session) edit(o commit.PublishOptions, name string) (commit.Version, error) {
	target, err := unix.Openat(o.Dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return commit.Version{}, errors.Join(errShared, err)
	}
	defer unix.Close(target)
	if err := s.readThrough(target); err != nil {
		return commit.Version{}, err
	}
	s.f.dropIdleBackings(s.baseKey)
	if _, err := unix.FcntlInt(uintptr(target), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return commit.Version{}, errors.Join(errShared, err)
	}
	o.Parts = s.parts
	o.Applied = func() {
		if _, err := unix.FcntlInt(uintptr(target), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			s.f.log.Errorf("%q: the lease for a commit cannot be given back: %v", s.path(), err)
		}
	}
	v, err := s.shadow.InPlace(target, o)
	s.f.forgetContent(s.baseKey) // before anybody opens it
	return v, err
}

// commitWholeLocked is commitLocked for a shadow whose parts cannot be committed in place.
func (s *session) commitWholeLocked() unix.Errno {
	s.edits, s.inPlace, s.copies = false, false, true
	s.f.mu.Lock()
	s.inode.sparse = false
	s.f.mu.Unlock()
	if e := s.fillLocked(); e != 0 {
		return s.rejectLocked(e, "the old content cannot be read: "+e.Error())
	}
	return s.commitLocked()
}

// readThrough lets the session read the committed file through target, the same file, so
// that it has the file open but once: a lease is refused where it is open twice.
func (s *session) readThrough(target int) error {
	var st, base unix.Stat_t
	if err := errors.Join(unix.Fstat(target, &st), unix.Fstat(s.baseFD, &base)); err != nil {
		return err
	}
	if st.Ino != base.Ino || st.Dev != base.Dev {
		return errShared // another file has the name; the commit of the whole will say so
	}
	return unix.Dup3(target, s.baseFD, unix.O_CLOEXEC)
}

// dropIdleBackings ends the registrations of a file that nobody has open: each keeps it
// open itself.
func (f *FS) dropIdleBackings(key inoKey) {
	var nodes []*kernelNode
	f.mu.Lock()
	if n := f.inodes[key]; n != nil {
		nodes = slices.Clone(n.nodes)
	}
	for _, k := range nodes {
		k.pins++ // a forgotten node drops its own
	}
	f.mu.Unlock()
	for _, k := range nodes {
		k.io.mu.Lock()
		if k.io.passthrough == 0 {
			f.dropBacking(k)
		}
		k.io.mu.Unlock()
		f.mu.Lock()
		k.pins--
		f.dropNodeLocked(k)
		f.mu.Unlock()
	}
}
