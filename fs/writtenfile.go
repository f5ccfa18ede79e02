package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/holders"
	"latchfs/lockmgr/proc"
)

// writtenFile is the shadow of a session as /proc shows it.
type writtenFile struct {
	*handles
	s *session
}

var _ holders.File = writtenFile{}

// AsOpen implements holders.File.
func (w writtenFile) AsOpen() proc.File {
	s := w.s
	w.nodes.mu.Lock()
	key := s.inode.key
	earlier := slices.Clone(s.besides)
	for _, k := range s.inode.nodes {
		earlier = append(earlier, k.numbers...)
	}
	w.nodes.mu.Unlock()
	if dev, ino, ok := s.shown.File(); ok {
		key = inoKey{dev, ino}
	}
	file := proc.File{
		Dev: w.disk.mountDev, Ino: w.disk.inoFor(key.dev, key.ino), MountID: w.disk.mountID,
		NoAppend: w.besideAppenders(append(earlier, key)),
	}
	for _, k := range earlier {
		file.Also = append(file.Also, w.disk.inoFor(k.dev, k.ino))
	}
	return file
}

// besideAppenders reports whether a file is open to append records that shows one of the
// numbers which the shadow shows or has shown, and the shadow is not: descriptors of the
// two are told apart by their mode. It may be the file that the shadow stands for, or a
// version from before: a node shows the number of the file from which its session began,
// and a descriptor that appends that of the file which it follows.
func (w writtenFile) besideAppenders(shown []inoKey) bool {
	s := w.s
	w.nodes.mu.Lock()
	defer w.nodes.mu.Unlock()
	if w.appenders.Len() == 0 || s.baseKey == (inoKey{}) {
		return false
	}
	shown = append(shown, s.baseKey)
	beside := false
	for _, h := range w.handles.open {
		switch {
		case h.kind == shadowHandle && h.sess == s && h.flags&unix.O_APPEND != 0:
			return false
		case h.kind == appendHandle:
			shows := func(key inoKey) bool { return slices.Contains(shown, key) }
			beside = beside || h.n == s.base || shows(h.n.key) || shows(keyOf(h.app.Follows())) || slices.ContainsFunc(h.k.numbers, shows)
		}
	}
	return beside
}

// AsMapped implements holders.File.
func (w writtenFile) AsMapped() proc.File {
	s := w.s
	w.nodes.mu.Lock()
	defer w.nodes.mu.Unlock()
	return proc.File{Dev: s.inode.key.dev, Ino: s.inode.key.ino}
}
