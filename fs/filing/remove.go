package filing

import (
	"path"

	"golang.org/x/sys/unix"
)

// Remove removes the file of a stale claim, or the directory that is one. It goes through
// the mount, as a program would: so the kernel forgets the name, and the history has the
// file. Nothing is done if the device dev is not mounted there. A file that is gone
// already is no error: somebody was faster.
func (k *Clerk) Remove(mountpoint string, dev uint64, file string) error {
	mount, err := unix.Open(mountpoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	var st unix.Stat_t
	if err := unix.Fstat(mount, &st); err != nil || uint64(st.Dev) != dev {
		return err // it was unmounted, or something else is mounted there
	}
	parent, err := unix.Openat2(mount, path.Dir(file), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	name := path.Base(file)
	err = unix.Unlinkat(parent, name, 0)
	if err == unix.EISDIR {
		err = k.removeDir(parent, name)
	}
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// removeDir removes a directory that is a claim, with the files in it, its owner last:
// until then nobody else takes it for free.
func (k *Clerk) removeDir(parent int, name string) error {
	fd, err := openDir(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	list, err := k.c.Engine.List(fd)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir && e.Name != ownerFile {
			return unix.ENOTEMPTY
		}
	}
	for _, e := range list {
		if e.Name == ownerFile {
			continue
		}
		if err := unix.Unlinkat(fd, e.Name, 0); err != nil && err != unix.ENOENT {
			return err
		}
	}
	if err := unix.Unlinkat(fd, ownerFile, 0); err != nil && err != unix.ENOENT {
		return err
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}
