package rejected

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/statedir"
)

// Store is the rejected store: bytes that were refused, or cut off.
type Store struct {
	disk *disk.Disk
	kept chan struct{} // see Kept

	listMu sync.Mutex // guards what follows
	list   list

	mu      sync.Mutex // guards what follows
	ballast bool       // none has been dropped since it was last complete
	late    []string   // entries that have found no room for their names
}

// New returns the rejected store in the state directory of d.
func New(d *disk.Disk) *Store { return &Store{disk: d, kept: make(chan struct{}, 1)} }

// The layout of the rejected store inside the state directory. Names that begin
// with a dot are no entries.
const (
	Dir       = "rejected"  // holds one directory for each ID
	Content   = "content"   // the bytes
	Meta      = "meta.json" // what is known about them
	NewPrefix = ".new-"     // prefix of a directory that is being made
)

// Put makes an entry of the rejected store. content puts the bytes, which have
// the status st, into its directory.
func (s *Store) Put(meta map[string]any, st *unix.Stat_t, content func(dir int, st *unix.Stat_t) error) (string, error) {
	now := time.Now().UTC()
	id := fmt.Sprintf("%s-%08x", now.Format(TimeFormat), rand.Uint32())
	rejected, err := s.openRejected()
	if err != nil {
		return "", err
	}
	defer unix.Close(rejected)
	tmp := NewPrefix + id
	s.disk.Hold(tmp)
	defer s.disk.Release(tmp)
	if err := s.DoWithRoom("mkdir", func() error { return unix.Mkdirat(rejected, tmp, 0o700) }); err != nil {
		return "", err
	}
	dir, err := disk.OpenDir(rejected, tmp)
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
	err = s.DoWithRoom("rename", func() error { return unix.Renameat(rejected, tmp, rejected, id) })
	if err != nil {
		s.nameLater(tmp)
		return "", errors.Join(err, metaErr)
	}
	s.NameLate()
	s.StockBallast()
	s.added(rejected, id, meta["errno"] == "ENOSPC" || meta["errno"] == "EDQUOT")
	return id, nil
}

// dropEntry removes an entry without content.
func (s *Store) dropEntry(rejected int, name string) error {
	_ = s.disk.Do("unlink", func() error { return unix.Unlinkat(rejected, name+"/"+Meta, 0) })
	return s.disk.Do("rmdir", func() error { return unix.Unlinkat(rejected, name, unix.AT_REMOVEDIR) })
}

// openRejected opens the directory of the rejected store, made if it is missing.
func (s *Store) openRejected() (int, error) {
	fd, err := statedir.OpenDir(s.disk.StateFD(), Dir)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	err = s.DoWithRoom("mkdir", func() error { return unix.Mkdirat(s.disk.StateFD(), Dir, 0o700) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return statedir.OpenDir(s.disk.StateFD(), Dir)
}

// CopyContent copies the bytes of fd, which has the status st, into dir.
func (s *Store) CopyContent(fd, dir int, st *unix.Stat_t) error {
	var to int
	err := s.disk.Do("create", func() (err error) {
		to, err = unix.Openat(dir, Content, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := s.disk.CopyContent(nil, fd, to, st.Size); err != nil {
		return errors.Join(err, s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, Content, 0) }))
	}
	// An ordinary user cannot give it away and needs not: it is in his own tree.
	_ = s.disk.Do("chown", func() error { return unix.Fchown(to, int(st.Uid), int(st.Gid)) })
	return nil
}

// SyncContent makes the bytes of an entry that is being made durable.
func (s *Store) SyncContent(dir int) error {
	fd, err := disk.OpenShadow(dir, Content)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.disk.Do("fsync", func() error { return unix.Fsync(fd) })
}

func (s *Store) writeMeta(dir int, meta map[string]any) error {
	b, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return err
	}
	return s.DoWithRoom("meta", func() error {
		fd, err := unix.Openat(dir, Meta, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return disk.WriteAll(fd, append(b, '\n'), 0)
	})
}

// Tidy finishes what a crash has interrupted. Of the entries that were
// being made those with content get their name, the others go; and so does what is
// left of those that were being removed. It returns the IDs of the former.
func (s *Store) Tidy() (salvaged []string, err error) {
	rejected, err := s.openRejected()
	if err != nil {
		return nil, err
	}
	defer unix.Close(rejected)
	var errs []error
	err = disk.ReadDir(rejected, func(e disk.Entry) error {
		id, ok := strings.CutPrefix(e.Name, NewPrefix)
		if !ok {
			errs = append(errs, s.finishRemoval(rejected, e.Name))
			return nil
		}
		if s.disk.NameInUse(e.Name) {
			return nil
		}
		var st unix.Stat_t
		if unix.Fstatat(rejected, e.Name+"/"+Content, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			errs = append(errs, s.disk.Do("rename", func() error { return unix.Renameat(rejected, e.Name, rejected, id) }))
			salvaged = append(salvaged, id)
			return nil
		}
		errs = append(errs, s.dropEntry(rejected, e.Name))
		return nil
	})
	return salvaged, errors.Join(append(errs, err)...)
}
