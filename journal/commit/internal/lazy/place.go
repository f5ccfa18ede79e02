package lazy

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/statedir"
)

// Place puts the marker beside the file. It is on disk before anything that comes
// later in its directory. The commit becomes a holder of file.
func (l *Commit) Place(s *Set, file *disk.Shared, dir int, old string) error {
	l.old = old
	var err error
	if l.dir, err = s.openDir(l.dirKey, dir); err != nil {
		return err
	}
	if file.Hold() {
		l.file = file
	}
	if l.link(s) {
		return nil
	}
	l.marker = s.disk.ClaimName()
	err = s.disk.Do("symlink", func() error { return unix.Symlinkat(l.String(), l.dir.FD(), l.marker) })
	if err != nil {
		l.drop(s)
	}
	return err
}

// link makes the marker a link of the one file that all of them are; false if it has to be a
// symbolic link. That takes an inode of its own, which costs three times as much.
func (l *Commit) link(s *Set) bool {
	name, ok := l.linkName()
	if !ok || !s.links.Load() {
		return false
	}
	s.disk.Hold(name)
	err := s.disk.Do("mark", func() error { return unix.Linkat(s.disk.StateFD(), disk.MarkerName, l.dir.FD(), name, 0) })
	if err != nil { // too many links, a directory of another quota project, ...
		s.disk.Release(name)
		return false
	}
	l.marker = name
	return true
}

// prepareLinks sees to it that there is the file that all markers are links of. Where it
// might come to the disk after a marker, or cannot be had, there are symbolic links.
func (s *Set) prepareLinks(dev uint64) {
	if !s.disk.KeepsOrder(dev) || s.links.Load() {
		return
	}
	err := s.disk.Do("create", func() error {
		fd, err := statedir.OpenFile(s.disk.StateFD(), disk.MarkerName, unix.O_RDONLY|unix.O_CREAT)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
	if err == nil {
		s.links.Store(true)
	}
}

// openDir returns a descriptor of the directory key, which dir is one of, and holds it.
func (s *Set) openDir(key disk.Inode, dir int) (*disk.Shared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.open[key]; d != nil && d.Hold() {
		return d, nil
	}
	own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	s.open[key] = disk.Share(own)
	return s.open[key], nil
}

// Remove takes the marker of a publication away that did not happen.
func (l *Commit) Remove(s *Set) { l.remove(s, s.disk.Do) }

func (l *Commit) remove(s *Set, do step) {
	if l.marker == "" {
		return
	}
	if do("unlink", func() error { return disk.Unname(l.dir.FD(), l.marker) }) == nil {
		l.drop(s)
		return
	}
	// It says nothing, for the name never held the inode. But it is in the way.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = append(s.strays, l)
	s.armLocked()
}

// drop gives back what the commit has.
func (l *Commit) drop(s *Set) {
	if l.marker != "" {
		s.disk.Release(l.marker)
		l.marker = ""
	}
	l.dir.Drop()
	l.file.Drop()
	l.dir, l.file = nil, nil
}
