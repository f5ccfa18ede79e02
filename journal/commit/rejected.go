package commit

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

	"latchfs/journal/statedir"
)

// rejects is the rejected store: bytes that were refused, or cut off.
type rejects struct {
	*disk
	kept chan struct{} // see Kept

	rejMu    sync.Mutex // guards what follows
	rejected rejectedList

	mu      sync.Mutex // guards what follows
	ballast bool       // none has been dropped since it was last complete
}

func newRejects(d *disk) *rejects { return &rejects{disk: d, kept: make(chan struct{}, 1)} }

// The layout of the rejected store inside the state directory. Names that begin
// with a dot are no entries.
const (
	RejectedDir     = "rejected"  // holds one directory for each ID
	RejectedContent = "content"   // the bytes
	RejectedMeta    = "meta.json" // what is known about them
	rejectedNew     = ".new-"     // prefix of a directory that is being made
)

// keep makes an entry of the rejected store. content puts the bytes, which have
// the status st, into its directory.
func (s *rejects) keep(meta map[string]any, st *unix.Stat_t, content func(dir int, st *unix.Stat_t) error) (string, error) {
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
func (s *rejects) dropEntry(rejected int, name string) error {
	_ = s.do("unlink", func() error { return unix.Unlinkat(rejected, name+"/"+RejectedMeta, 0) })
	return s.do("rmdir", func() error { return unix.Unlinkat(rejected, name, unix.AT_REMOVEDIR) })
}

// openRejected opens the directory of the rejected store, made if it is missing.
func (s *rejects) openRejected() (int, error) {
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

// copyKept copies the bytes of fd, which has the status st, into dir.
func (s *rejects) copyKept(fd, dir int, st *unix.Stat_t) error {
	var to int
	err := s.do("create", func() (err error) {
		to, err = unix.Openat(dir, RejectedContent, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := s.copyContent(nil, fd, to, st.Size); err != nil {
		return errors.Join(err, s.do("unlink", func() error { return unix.Unlinkat(dir, RejectedContent, 0) }))
	}
	// An ordinary user cannot give it away and needs not: it is in his own tree.
	_ = s.do("chown", func() error { return unix.Fchown(to, int(st.Uid), int(st.Gid)) })
	return nil
}

func (s *rejects) writeMeta(dir int, meta map[string]any) error {
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
// left of those that were being removed. It returns the IDs of the former.
func (s *rejects) tidyRejected() (salvaged []string, err error) {
	rejected, err := s.openRejected()
	if err != nil {
		return nil, err
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
			salvaged = append(salvaged, id)
			return nil
		}
		errs = append(errs, s.dropEntry(rejected, e.name))
		return nil
	})
	return salvaged, errors.Join(append(errs, err)...)
}
