package fs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/merge"
	"latchfs/journal/validate"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Under the policy "merge" a writer who has read an earlier version is let through
// where that version's content is still there: what it has written is joined with
// the current version when its session ends, under the lock that it has held since.
// mergenames.go does the same for a rename.

// merging is a change that is to be joined with what has come since.
type merging struct {
	x    *lostUpdate
	base []byte
	mine []byte // what was written, once it has been joined with something
	sums map[string]any
}

// mergeable prepares to merge what would be lost; nil if that cannot be, and x says
// why.
func (x *lostUpdate) mergeable(c *caller, p place, st *unix.Stat_t) *merging {
	f := x.f
	switch {
	case x.set.LostUpdate != policy.Merge, x.insists():
		return nil
	case st.Nlink > 1 || f.isMountpoint(p.dir, p.name):
		x.apart = "a file that keeps its inode is never merged"
	case c != nil && f.txnOf(c) != nil:
		x.apart = "nothing is merged inside a transaction"
	case st.Size > merge.MaxSize:
		x.apart = "the file is too large to be merged"
	}
	if x.apart != "" {
		return nil
	}
	base, ok := f.baseContent(x.path, &x.b)
	if !ok && x.onlyGrew(st) {
		base, ok = f.beginning(p, st, x.b.Stamp.Size)
	}
	if !ok {
		x.apart = "what that held is no longer there, so that the changes cannot be told apart"
		return nil
	}
	return &merging{x: x, base: base}
}

// onlyGrew reports whether nothing has happened to the known version but that records
// were appended: st, the file as it is now, begins with it.
func (x *lostUpdate) onlyGrew(st *unix.Stat_t) bool {
	was, is := x.b.Stamp, stampOfFile(st)
	if was == (knowledge.Stamp{}) || len(x.b.Since) == 0 || x.b.Since[len(x.b.Since)-1].Stamp != is {
		return false
	}
	number := x.b.Version
	for _, c := range x.b.Since {
		number++
		if c.Number != number || c.Author.Operation != opAppend || c.Stamp.Dev != was.Dev || c.Stamp.Ino != was.Ino || c.Stamp.Size < was.Size {
			return false
		}
	}
	return true
}

// beginning reads the first bytes of the file that has the name p, which must be st.
func (f *FS) beginning(p place, st *unix.Stat_t, size int64) ([]byte, bool) {
	fd, err := commit.OpenUnnoticed(f.fdOf(p.dir), p.name)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	data, is, err := bases.Read(fd)
	if err != nil || stampOfFile(is) != stampOfFile(st) || int64(len(data)) < size {
		return nil, false
	}
	return data[:size:size], true
}

// mergesCut prepares to merge what is written after a cut to nothing, which is all
// of the content, like what follows an open that truncates. s.mu is held.
func (s *session) mergesCut(x *lostUpdate) *merging {
	var st unix.Stat_t
	dir, name := s.where()
	if s.inPlace || s.txn.Load() != nil || unix.Fstatat(s.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return x.mergeable(nil, place{dir, name, nil}, &st)
}

// join merges mine into theirs. The error is a *notMerged.
func (g *merging) join(theirs, mine []byte) ([]byte, error) {
	if g.x.b.Own && bytes.Equal(mine, g.base) && !bytes.Equal(mine, theirs) {
		// To write the same once more is no change, and yet its writer wants it there.
		return nil, &notMerged{g.x, &merge.Conflict{Reason: "the same content was written again, over what somebody else has made of it"}}
	}
	merged, err := merge.Merge(merge.KindOf(g.x.path), g.base, theirs, mine)
	if err != nil {
		n := &notMerged{x: g.x}
		errors.As(err, &n.conflict)
		return nil, n
	}
	known := sum(g.base)
	known["version"] = g.x.number(g.x.b.Stamp, g.x.b.Version)
	current := sum(theirs)
	if n := len(g.x.b.Since); n > 0 {
		current["version"] = g.x.number(g.x.b.Since[n-1].Stamp, g.x.b.Since[n-1].Number)
	}
	g.sums = map[string]any{"base": known, "theirs": current, "mine": sum(mine), "merged": sum(merged)}
	if !bytes.Equal(merged, mine) {
		g.mine = mine
	}
	return merged, nil
}

func sum(b []byte) map[string]any {
	h := sha256.Sum256(b)
	return map[string]any{"bytes": len(b), "sha256": hex.EncodeToString(h[:])}
}

// record writes the merge to the audit trail.
func (g *merging) record(ev audit.Event) {
	ev.Event, ev.Time, ev.Path = "merge", time.Now(), g.x.path
	if ev.Detail == nil {
		ev.Detail = map[string]any{}
	}
	ev.Detail["uid"] = g.x.uid
	ev.Detail["kind"] = merge.KindOf(g.x.path).String()
	for name, v := range g.sums {
		ev.Detail[name] = v
	}
	g.x.f.event(ev)
}

// notMerged refuses a change that cannot be joined with the current version.
type notMerged struct {
	x        *lostUpdate
	conflict *merge.Conflict
}

// Error tells nothing of the content.
func (e *notMerged) Error() string {
	e.x.apart = e.conflict.Reason
	if e.conflict.Line > 0 {
		e.x.apart = fmt.Sprintf("line %d: %s", e.conflict.Line, e.conflict.Reason)
	}
	return e.x.whole()
}

// note adds to an event, or to what is kept, where the conflict is; known is the
// number of the version that the refused change was made from.
func (e *notMerged) note(detail map[string]any) {
	d := map[string]any{"reason": e.conflict.Reason, "base": e.x.number(e.x.b.Stamp, e.x.b.Version)}
	if e.conflict.Line > 0 {
		d["line"] = e.conflict.Line
	}
	detail["merge"] = d
}

// verdict shows the place to those who may see the content.
func (e *notMerged) verdict() *validate.Refusal {
	return &validate.Refusal{Line: e.conflict.Line, Reason: e.conflict.Reason, Place: e.conflict.Place()}
}

// mergeLocked makes the shadow of a session that began on a version its writer did
// not know the merged content. s.mu is held; the answer is that of decideLocked.
func (s *session) mergeLocked() unix.Errno {
	g := s.merge
	if g == nil || s.baseVersion == nil {
		return 0
	}
	dir, name := s.where()
	o := s.publishOptions(dir, name)
	if err := s.shadow.CheckBase(o); err != nil {
		return s.publishFailed(err)
	}
	theirs, err := s.f.readVersion(place{dir, name, nil}, s.baseVersion)
	if err != nil {
		return s.rejectLocked(errnoOf(err), "the file cannot be read, to be merged with: "+err.Error())
	}
	mine, _, err := bases.Read(s.shadow.FD())
	if err != nil {
		return s.rejectLocked(errnoOf(err), "what was written cannot be read, to be merged: "+err.Error())
	}
	var merged []byte
	if merged, err = g.join(theirs, mine); s.inPlace {
		err = &notMerged{g.x, &merge.Conflict{Reason: "a file that keeps its inode is never merged"}}
	}
	if err != nil {
		return s.rejectMerge(err)
	}
	if g.mine == nil {
		return 0
	}
	err = s.f.retryWithRoom(func() error {
		return s.asWriter(func() error { return writeAllOf(s.shadow.FD(), merged) })
	})
	if err != nil {
		return s.rejectLocked(errnoOf(err), "the merged content cannot be written: "+err.Error())
	}
	s.wrote = true
	// Its pages are what the writer wrote. The kernel waits for whoever reads or writes
	// one, and that request may wait for s.mu.
	go s.f.notifyInode(s.inode, 0, -1)
	return 0
}

// rejectMerge refuses a session whose change cannot be merged.
func (s *session) rejectMerge(err error) unix.Errno {
	var n *notMerged
	if !errors.As(err, &n) {
		return s.rejectLocked(errnoOf(err), err.Error())
	}
	reason := n.Error()
	n.x.record("conflict", unix.EBUSY)
	n.x.refused()
	return s.rejectFor(unix.EBUSY, reason, n)
}

// hintOf is what to do about a refused change, if it was refused for that; id is that
// of the bytes that are kept.
func hintOf(why error, id string) string {
	var n *notMerged
	if !errors.As(why, &n) {
		return ""
	}
	if id == "" {
		return joinByHand
	}
	return fmt.Sprintf("`latchfs rejected diff %s` shows what was written beside the file as it is now. %s", id, joinByHand)
}

// holdBase prepares to keep what the session is about to replace.
func (s *session) holdBase(dir *inode, name string) (keep func(replaced bool)) {
	var st unix.Stat_t
	if s.baseVersion == nil || s.settings.LostUpdate != policy.Merge || s.inPlace ||
		unix.Fstatat(s.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return func(bool) {}
	}
	return s.f.holdBase(place{dir, name, nil}, &st)
}

// merged is what the shadow was joined with: the version that it replaces; nil: nothing.
func (s *session) merged() *merging {
	if s.merge == nil || s.merge.sums == nil {
		return nil
	}
	return s.merge
}

// unmergeLocked gives the shadow of a session that is refused after all back what its
// writer has written.
func (s *session) unmergeLocked() {
	if s.merge == nil || s.merge.mine == nil {
		return
	}
	mine := s.merge.mine
	s.merge.mine = nil
	if err := writeAllOf(s.shadow.FD(), mine); err != nil {
		s.f.log.Errorf("what was written to %q is lost, but for what was merged of it: %v", s.path(), err)
	}
}

// noteMerged enters two versions: what the writer has made of the one that it knew,
// which nobody else has ever seen and its next change will be based on, and what came
// out of the merge, which nobody has seen yet.
func (f *FS) noteMerged(path string, stamp knowledge.Stamp, g *merging, who knowledge.Who, by knowledge.Author) {
	key := knowledge.Key(path)
	if g.mine == nil {
		f.knowledge.Changed(time.Now(), key, stamp, who, by)
		return
	}
	written := knowledge.Stamp{Dev: noDevice, Ino: f.serial.Add(1), Size: int64(len(g.mine)), Mtime: time.Now().UnixNano()}
	f.knowledge.Changed(time.Now(), key, written, who, by)
	number, _ := f.knowledge.Current(key)
	f.knowledge.Changed(time.Now(), key, stamp, knowledge.Who{}, by)
	f.bases.PutBytes(key, number, g.mine, written)
}

// noDevice is the device of versions that never were a file.
const noDevice = ^uint64(0)

// readVersion reads the file that has the name p, which must be v.
func (f *FS) readVersion(p place, v *commit.Version) ([]byte, error) {
	fd, err := commit.OpenUnnoticed(f.fdOf(p.dir), p.name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data, st, err := bases.Read(fd)
	if err == nil && stampOfFile(st) != stampOfVersion(v) {
		err = unix.EBUSY
	}
	return data, err
}

// writeAllOf makes data the content of a file. Where there is no room for it the file
// is as it was, on filesystems that can set room aside.
func writeAllOf(fd int, data []byte) error {
	if len(data) > 0 {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data)))
		if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return err
		}
	}
	for n := 0; n < len(data); {
		m, err := unix.Pwrite(fd, data[n:], int64(n))
		if err != nil && err != unix.EINTR {
			return err
		}
		n += max(m, 0)
	}
	return unix.Ftruncate(fd, int64(len(data)))
}
