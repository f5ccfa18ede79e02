package commit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/rejected"
)

// Reject keeps the shadow's bytes under rejected/ID/ in the state directory
// and returns the ID, which sorts by time. meta.json holds meta and besides id,
// time, file: {size, mode, uid, gid}, and path_base64 if meta's path is not UTF-8. The content itself has mode 0600 and
// keeps its owner, so whoever shows it decides by the mode in file.
//
// Where the inode can be linked this costs no space: with a full disk the bytes
// are kept, if need be without meta.json. Nothing is synced, for the close that
// wrote these bytes has failed already. After Publish or InPlace the bytes are
// copied, so that later writes through FD do not reach what is kept. The shadow
// is to be discarded afterwards.
func (sh *Shadow) Reject(meta map[string]any) (id string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(sh.fd, &st); err != nil {
		return "", fmt.Errorf("reject: %w", os.NewSyscallError("fstat", err))
	}
	id, err = sh.s.rejects.Put(meta, &st, sh.keepContent)
	if err != nil && sh.name.Intent().Synced {
		sh.name.LeaveToRecovery() // which tries again
	}
	if err != nil {
		return "", fmt.Errorf("reject: %w", err)
	}
	return id, nil
}

// keepContent puts the shadow's bytes into dir as RejectedContent: the inode
// itself if it is nobody else's.
func (sh *Shadow) keepContent(dir int, st *unix.Stat_t) error {
	if sh.published {
		return sh.s.rejects.CopyContent(sh.fd, dir, st)
	}
	var err error
	if sh.name.Stands() {
		err = sh.s.rejects.DoWithRoom("rename", func() error { return unix.Renameat(sh.name.Dir(), sh.name.Intent().Shadow, dir, rejected.Content) })
	} else {
		err = sh.s.rejects.DoWithRoom("link", func() error { return disk.LinkFD(sh.fd, dir, rejected.Content) })
	}
	switch {
	case err == nil && !sh.isAt(dir, rejected.Content): // somebody outside the mount has given the name to another file
		if err := sh.s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, rejected.Content, 0) }); err != nil {
			return err
		}
		return sh.copyAside(dir, st)
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EPERM), // another filesystem, subvolume or quota project
		errors.Is(err, unix.ENOENT): // it had a name once and has lost it
		return sh.copyAside(dir, st)
	}
	if err != nil {
		return err
	}
	if sh.keepsOrder() || sh.keepOnDisk(dir) == nil {
		_ = sh.name.Gone()
	} else {
		sh.name.LeaveToRecovery()
	}
	// Nobody gets past the 0700 above it, so this is for later copies.
	_ = sh.s.disk.Do("chmod", func() error { return unix.Fchmod(sh.fd, 0o600) })
	return nil
}

// copyAside copies the shadow's bytes into dir. What was synced is on disk there, before
// the shadow is discarded.
func (sh *Shadow) copyAside(dir int, st *unix.Stat_t) error {
	if err := sh.s.rejects.CopyContent(sh.fd, dir, st); err != nil {
		return err
	}
	return sh.keepOnDisk(dir)
}

// isAt reports whether a name in dir is the shadow's.
func (sh *Shadow) isAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == sh.initial.Ino
}
