package commit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The layout of the rejected store inside the state directory.
const (
	RejectedDir     = "rejected"  // holds one directory for each ID
	RejectedContent = "content"   // the bytes
	RejectedMeta    = "meta.json" // what is known about them
	rejectedNew     = ".new-"     // prefix of a directory that is being made
)

// Reject keeps the shadow's bytes under rejected/ID/ in the state directory
// and returns the ID, which sorts by time. meta.json holds meta and, of the
// shadow's own, id, time, size, mode, uid and gid; the content itself has mode
// 0600 and keeps its owner, so whoever shows it decides by the mode in meta.
//
// Where it can be linked this costs no space: with a full disk the bytes are
// kept, if need be without meta.json. Nothing is synced, for the close that
// wrote these bytes has failed already. The shadow is to be discarded after.
func (sh *Shadow) Reject(meta map[string]any) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("reject: %w", err)
		}
	}()
	now := time.Now().UTC()
	id = fmt.Sprintf("%s-%08x", now.Format("20060102T150405.000000000"), rand.Uint32())
	var st unix.Stat_t
	if err := unix.Fstat(sh.fd, &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	rejected, err := sh.s.openRejected()
	if err != nil {
		return "", err
	}
	defer unix.Close(rejected)
	tmp := rejectedNew + id
	if err := sh.s.do("mkdir", func() error { return unix.Mkdirat(rejected, tmp, 0o700) }); err != nil {
		return "", err
	}
	dir, err := openDir(rejected, tmp)
	if err == nil {
		defer unix.Close(dir)
		err = sh.keepContent(dir, &st)
	}
	if err != nil {
		return "", errors.Join(err, sh.s.do("unlink", func() error { return unix.Unlinkat(rejected, tmp, unix.AT_REMOVEDIR) }))
	}
	all := map[string]any{}
	maps.Copy(all, meta)
	maps.Copy(all, map[string]any{
		"id": id, "time": now.Format(time.RFC3339Nano), "size": st.Size,
		"mode": fmt.Sprintf("%04o", st.Mode&0o7777), "uid": st.Uid, "gid": st.Gid,
	})
	metaErr := sh.s.writeMeta(dir, all)
	err = sh.s.do("rename", func() error { return unix.Renameat(rejected, tmp, rejected, id) })
	if err != nil {
		return "", errors.Join(err, metaErr)
	}
	return id, nil
}

// openRejected opens the directory of the rejected store, made if it is missing.
func (s *Store) openRejected() (int, error) {
	fd, err := openDir(s.stateFD(), RejectedDir)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	err = s.do("mkdir", func() error { return unix.Mkdirat(s.stateFD(), RejectedDir, 0o700) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return openDir(s.stateFD(), RejectedDir)
}

// keepContent puts the shadow's bytes into dir as "content".
func (sh *Shadow) keepContent(dir int, st *unix.Stat_t) error {
	if err := sh.s.do("chmod", func() error { return unix.Fchmod(sh.fd, 0o600) }); err != nil {
		return err
	}
	var err error
	if sh.name != "" {
		err = sh.s.do("rename", func() error { return unix.Renameat(sh.dir, sh.name, dir, RejectedContent) })
		if err == nil {
			return sh.dropName()
		}
	} else {
		err = sh.s.do("link", func() error { return linkFD(sh.fd, dir, RejectedContent) })
		if err == nil {
			return nil
		}
	}
	return sh.copyContentTo(dir, st)
}

// copyContentTo is keepContent where the inode itself cannot be kept: it lies
// on another filesystem, or it had a name once and lost it.
func (sh *Shadow) copyContentTo(dir int, st *unix.Stat_t) error {
	var fd int
	err := sh.s.do("create", func() (err error) {
		fd, err = unix.Openat(dir, RejectedContent, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := copyContent(sh.s, sh.fd, fd, st.Size); err != nil {
		return errors.Join(err, sh.s.do("unlink", func() error { return unix.Unlinkat(dir, RejectedContent, 0) }))
	}
	// An ordinary user cannot give it away and needs not: it is in his own tree.
	_ = sh.s.do("chown", func() error { return unix.Fchown(fd, int(st.Uid), int(st.Gid)) })
	return nil
}

func (s *Store) writeMeta(dir int, meta map[string]any) error {
	b, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return err
	}
	return s.do("meta", func() error {
		fd, err := unix.Openat(dir, RejectedMeta, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return writeAll(fd, append(b, '\n'), 0)
	})
}

// openDir opens a directory for listing, through no symbolic link.
func openDir(at int, name string) (int, error) {
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, os.NewSyscallError("openat", err)
		}
	}
}
