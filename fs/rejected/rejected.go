// Package rejected shows the store of refused bytes, which package commit fills, and says when
// it is pruned (Pruner):
//
//	rejected/ID/content     the bytes, with owner and mode of the file that they were meant for
//	rejected/ID/meta.json   what that file is, who could reach it then, and why they were refused
//
// An entry does not change once it has its name, so what its meta.json says is read once,
// and forgotten when the entry is gone. Where the disk was full there is none: such bytes
// are their owner's alone. Nothing is opened by a name that leads out of the store, and no
// link is followed.
//
// Whether somebody may know of an entry the caller decides, by a function of what is known
// of the file.
//
// Store.mu guards what was read. It is not held while anything is read, or somebody asked.
package rejected

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/journal/statedir"
)

// maxMeta bounds what is read of a meta.json.
const maxMeta = 1 << 20

// File is what is known about the file that refused bytes were meant for.
type File struct {
	Path     string // "" if it is not known
	At       time.Time
	UID, GID uint32
	Mode     uint32
	ACL      bool          // it had one
	Reach    history.Reach // who could reach it when the bytes were kept
}

// Store is the store of one state directory.
type Store struct {
	state func() (fd int, ok bool)

	mu    sync.Mutex // guards what follows
	known map[string]File
	most  int // how many may be known until those that are gone are dropped
}

// fewKnown is how many entries may always be known.
const fewKnown = 256

// New makes a Store that reads below what state returns; without a state directory there
// are no refused bytes.
func New(state func() (fd int, ok bool)) *Store {
	return &Store{state: state, known: map[string]File{}, most: fewKnown}
}

// List lists the entries of which sees is true, in the order in which they were kept.
func (s *Store) List(sees func(*File) bool) ([]locksdir.Rejected, error) {
	dir, err := s.open()
	if err != nil {
		return nil, nil
	}
	defer unix.Close(dir)
	ids, err := idsIn(dir)
	if err != nil {
		return nil, err
	}
	list := make([]locksdir.Rejected, 0, len(ids))
	for _, id := range ids {
		if r, ok := s.entry(dir, id, sees); ok {
			list = append(list, r)
		}
	}
	s.forget(ids)
	return list, nil
}

// Any reports whether there is an entry of which is is true.
func (s *Store) Any(is func(*File) bool) bool {
	list, err := s.List(is)
	return err == nil && len(list) > 0
}

// Find finds an entry, if sees is true of it.
func (s *Store) Find(id string, sees func(*File) bool) (locksdir.Rejected, bool) {
	if !isID(id) {
		return locksdir.Rejected{}, false
	}
	dir, err := s.open()
	if err != nil {
		return locksdir.Rejected{}, false
	}
	defer unix.Close(dir)
	return s.entry(dir, id, sees)
}

// Of lists the bytes that were meant for the file at path, as far as mine is true of its
// user, and how many there are.
func (s *Store) Of(path string, mine func(uid uint32) bool) (ids []string, bytes int64, err error) {
	dir, err := s.open()
	if errors.Is(err, unix.ENOENT) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(dir)
	all, err := idsIn(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range all {
		if k, st, ok := s.find(dir, id); ok && k.Path == path && mine(k.UID) {
			ids, bytes = append(ids, id), bytes+st.Size
		}
	}
	return ids, bytes, nil
}

// idsIn lists the entries of the store, the oldest first: an id begins with the time.
func idsIn(dir int) ([]string, error) {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), commit.RejectedDir)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(names, func(name string) bool { return !isID(name) })
	slices.Sort(ids)
	return ids, nil
}

// isID reports whether a name in the store is an entry's.
func isID(name string) bool {
	return name != "" && name[0] != '.' && !strings.ContainsAny(name, "/\x00")
}

// open opens the directory of the store, which is not there before the first refusal.
func (s *Store) open() (int, error) {
	state, ok := s.state()
	if !ok {
		return -1, unix.ENOENT
	}
	return statedir.OpenDir(state, commit.RejectedDir)
}

// entry describes an entry of the store dir, if sees is true of it.
func (s *Store) entry(dir int, id string, sees func(*File) bool) (locksdir.Rejected, bool) {
	k, st, ok := s.find(dir, id)
	if !ok || !sees(&k) {
		return locksdir.Rejected{}, false
	}
	return locksdir.Rejected{
		ID: id, Time: k.At, UID: k.UID, GID: k.GID, Mode: k.Mode, Size: st.Size, Files: files{s, id},
	}, true
}

// find finds an entry of the store dir, and the status of its content.
func (s *Store) find(dir int, id string) (k File, st unix.Stat_t, ok bool) {
	err := unix.Fstatat(dir, id+"/"+commit.RejectedContent, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return k, st, false
	}
	return s.look(dir, id, &st), st, true
}

// look returns what is known about an entry whose content has the status st.
func (s *Store) look(dir int, id string, st *unix.Stat_t) File {
	s.mu.Lock()
	k, ok := s.known[id]
	s.mu.Unlock()
	if ok {
		return k
	}
	b, err := readMeta(dir, id)
	k, ok = parse(b)
	if !ok {
		k = File{At: time.Unix(st.Mtim.Unix()), UID: st.Uid, GID: st.Gid, Mode: 0o600}
	}
	if err != nil && err != unix.ENOENT {
		return k // may be readable the next time
	}
	s.note(id, k)
	return k
}

// note remembers what is known about an entry. Whoever asks for the entries that the audit trail
// names never lists them: those that are gone have to be dropped here, too.
func (s *Store) note(id string, k File) {
	s.mu.Lock()
	s.known[id] = k
	many := len(s.known) > s.most
	s.mu.Unlock()
	if !many {
		return
	}
	dir, err := s.open() // anew: the caller may have read its own to the end
	if err != nil {
		return // the next one tries again
	}
	defer unix.Close(dir)
	ids, err := idsIn(dir)
	if err != nil {
		return
	}
	s.forget(ids)
	s.mu.Lock()
	s.most = max(fewKnown, 2*len(s.known))
	s.mu.Unlock()
}

// forget drops what is known about entries that are gone.
func (s *Store) forget(left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) <= len(left) {
		return
	}
	still := make(map[string]File, len(left))
	for _, id := range left {
		if k, ok := s.known[id]; ok {
			still[id] = k
		}
	}
	s.known = still
}

// parse reads what commit.Shadow.Reject has written.
func parse(meta []byte) (File, bool) {
	var m struct {
		Path string       `json:"path"`
		Raw  []byte       `json:"path_base64"`
		Time time.Time    `json:"time"`
		ACL  bool         `json:"acl"`
		Dirs *[][3]uint32 `json:"dirs"`
		File *struct {
			Mode string `json:"mode"`
			UID  uint32 `json:"uid"`
			GID  uint32 `json:"gid"`
		} `json:"file"`
	}
	if json.Unmarshal(meta, &m) != nil || m.File == nil {
		return File{}, false
	}
	mode, err := strconv.ParseUint(m.File.Mode, 8, 12)
	if err != nil {
		return File{}, false
	}
	k := File{Path: m.Path, At: m.Time, UID: m.File.UID, GID: m.File.GID, Mode: uint32(mode), ACL: m.ACL}
	if len(m.Raw) > 0 {
		k.Path = string(m.Raw)
	}
	if m.Dirs != nil {
		k.Reach.Known = true
		for _, d := range *m.Dirs {
			k.Reach.Gates = append(k.Reach.Gates, history.Gate{UID: d[0], GID: d[1], Mode: d[2]})
		}
	}
	return k, true
}

// files opens the files of one entry.
type files struct {
	s  *Store
	id string
}

// content is an open file of kept bytes.
type content struct {
	*os.File
	size int64
}

// Size implements locksdir.Content.
func (c content) Size() int64 { return c.size }

// Content implements locksdir.RejectedFiles.
func (r files) Content() (locksdir.Content, error) {
	dir, err := r.s.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := openIn(dir, r.id+"/"+commit.RejectedContent)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return content{os.NewFile(uintptr(fd), r.id), st.Size}, nil
}

// Meta implements locksdir.RejectedFiles.
func (r files) Meta() ([]byte, error) {
	dir, err := r.s.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	return readMeta(dir, r.id)
}

func readMeta(dir int, id string) ([]byte, error) {
	fd, err := openIn(dir, id+"/"+commit.RejectedMeta)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), id)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxMeta))
}

func openIn(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}
