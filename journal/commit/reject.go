package commit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// The layout of the rejected store inside the state directory. Names that begin
// with a dot are no entries.
const (
	RejectedDir     = "rejected"  // holds one directory for each ID
	RejectedContent = "content"   // the bytes
	RejectedMeta    = "meta.json" // what is known about them
	rejectedNew     = ".new-"     // prefix of a directory that is being made
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
	id, err = sh.s.keep(meta, &st, sh.keepContent)
	if err != nil {
		return "", fmt.Errorf("reject: %w", err)
	}
	return id, nil
}

// keep makes an entry of the rejected store. content puts the bytes, which have
// the status st, into its directory.
func (s *Store) keep(meta map[string]any, st *unix.Stat_t, content func(dir int, st *unix.Stat_t) error) (string, error) {
	now := time.Now().UTC()
	id := fmt.Sprintf("%s-%08x", now.Format(rejectedTimeFormat), rand.Uint32())
	rejected, err := s.openRejected()
	if err != nil {
		return "", err
	}
	defer unix.Close(rejected)
	tmp := rejectedNew + id
	s.hold(tmp)
	defer s.release(tmp)
	if err := s.doWithRoom("mkdir", func() error { return unix.Mkdirat(rejected, tmp, 0o700) }); err != nil {
		return "", err
	}
	dir, err := openDir(rejected, tmp)
	if err == nil {
		defer unix.Close(dir)
		err = content(dir, st)
	}
	if err != nil {
		return "", errors.Join(err, s.dropEntry(rejected, tmp))
	}
	all := map[string]any{"time": now.Format(time.RFC3339Nano)}
	maps.Copy(all, meta)
	all["id"] = id
	if path, ok := meta["path"].(string); ok && !utf8.ValidString(path) {
		all["path_base64"] = []byte(path)
	}
	all["file"] = map[string]any{"size": st.Size, "mode": fmt.Sprintf("%04o", st.Mode&0o7777), "uid": st.Uid, "gid": st.Gid}
	metaErr := s.writeMeta(dir, all) // the bytes are worth keeping without
	err = s.doWithRoom("rename", func() error { return unix.Renameat(rejected, tmp, rejected, id) })
	if err != nil {
		return "", errors.Join(err, metaErr) // Recover gives it its name
	}
	s.stockBallast()
	s.added(rejected, id)
	return id, nil
}

// dropEntry removes an entry without content.
func (s *Store) dropEntry(rejected int, name string) error {
	_ = s.do("unlink", func() error { return unix.Unlinkat(rejected, name+"/"+RejectedMeta, 0) })
	return s.do("rmdir", func() error { return unix.Unlinkat(rejected, name, unix.AT_REMOVEDIR) })
}

// openRejected opens the directory of the rejected store, made if it is missing.
func (s *Store) openRejected() (int, error) {
	fd, err := statedir.OpenDir(s.stateFD(), RejectedDir)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	err = s.doWithRoom("mkdir", func() error { return unix.Mkdirat(s.stateFD(), RejectedDir, 0o700) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return statedir.OpenDir(s.stateFD(), RejectedDir)
}

// keepContent puts the shadow's bytes into dir as RejectedContent: the inode
// itself if it is nobody else's.
func (sh *Shadow) keepContent(dir int, st *unix.Stat_t) error {
	if sh.published {
		return sh.s.copyKept(sh.fd, dir, st)
	}
	var err error
	if sh.named() {
		err = sh.s.doWithRoom("rename", func() error { return unix.Renameat(sh.dir, sh.intent.Shadow, dir, RejectedContent) })
	} else {
		err = sh.s.doWithRoom("link", func() error { return linkFD(sh.fd, dir, RejectedContent) })
	}
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EPERM), // another filesystem, subvolume or quota project
		errors.Is(err, unix.ENOENT): // it had a name once and has lost it
		return sh.s.copyKept(sh.fd, dir, st)
	}
	if err != nil {
		return err
	}
	_ = sh.nameGone()
	// Nobody gets past the 0700 above it, so this is for later copies.
	_ = sh.s.do("chmod", func() error { return unix.Fchmod(sh.fd, 0o600) })
	return nil
}

// copyKept copies the bytes of fd, which has the status st, into dir.
func (s *Store) copyKept(fd, dir int, st *unix.Stat_t) error {
	var to int
	err := s.do("create", func() (err error) {
		to, err = unix.Openat(dir, RejectedContent, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := copyContent(s, nil, fd, to, st.Size); err != nil {
		return errors.Join(err, s.do("unlink", func() error { return unix.Unlinkat(dir, RejectedContent, 0) }))
	}
	// An ordinary user cannot give it away and needs not: it is in his own tree.
	_ = s.do("chown", func() error { return unix.Fchown(to, int(st.Uid), int(st.Gid)) })
	return nil
}

func (s *Store) writeMeta(dir int, meta map[string]any) error {
	b, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return err
	}
	return s.doWithRoom("meta", func() error {
		fd, err := unix.Openat(dir, RejectedMeta, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return writeAll(fd, append(b, '\n'), 0)
	})
}

// tidyRejected finishes what a crash has interrupted. Of the entries that were
// being made those with content get their name, the others go; and so does what is
// left of those that were being removed.
func (s *Store) tidyRejected(r *Report) error {
	rejected, err := s.openRejected()
	if err != nil {
		return err
	}
	defer unix.Close(rejected)
	var errs []error
	err = readDir(rejected, func(e dirent) error {
		id, ok := strings.CutPrefix(e.name, rejectedNew)
		if !ok {
			errs = append(errs, s.finishRemoval(rejected, e.name))
			return nil
		}
		if s.nameInUse(e.name) {
			return nil
		}
		var st unix.Stat_t
		if unix.Fstatat(rejected, e.name+"/"+RejectedContent, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			errs = append(errs, s.do("rename", func() error { return unix.Renameat(rejected, e.name, rejected, id) }))
			r.Salvaged = append(r.Salvaged, id)
			return nil
		}
		errs = append(errs, s.dropEntry(rejected, e.name))
		return nil
	})
	return errors.Join(append(errs, err)...)
}
