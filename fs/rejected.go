package fs

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/fs/reach"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/journal/statedir"
)

// maxRejectedMeta bounds what is read of a meta.json.
const maxRejectedMeta = 1 << 20

// rejects shows the store of kept bytes to package locksdir. An entry does not
// change once it has its name, so what its meta.json says is read once.
type rejects struct {
	f *FS

	mu    sync.Mutex // guards known
	known map[string]keptFile
}

// keptFile is what is known about the file that kept bytes were meant for.
type keptFile struct {
	path     string // "" if it is not known
	at       time.Time
	uid, gid uint32
	mode     uint32
	acl      bool          // it had one
	reach    history.Reach // who could reach it when the bytes were kept
}

// Rejected implements locksdir.Source.
func (s *source) Rejected(v locksdir.Viewer) []locksdir.Rejected {
	dir, err := s.rejects.open()
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	entries, err := readEntries(dir, isRejectedID)
	if err != nil {
		s.f.log.Warnf("reading the kept bytes: %v", err)
		return nil
	}
	list := make([]locksdir.Rejected, 0, len(entries))
	for i := range entries {
		if r, ok := s.rejects.entry(dir, entries[i].name, v); ok {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b locksdir.Rejected) int { return strings.Compare(a.ID, b.ID) })
	s.rejects.forget(entries)
	return list
}

// FindRejected implements locksdir.Source.
func (s *source) FindRejected(id string, v locksdir.Viewer) (locksdir.Rejected, bool) {
	if !isRejectedID(id) {
		return locksdir.Rejected{}, false
	}
	dir, err := s.rejects.open()
	if err != nil {
		return locksdir.Rejected{}, false
	}
	defer unix.Close(dir)
	return s.rejects.entry(dir, id, v)
}

// isRejectedID reports whether a name in the store is an entry's.
func isRejectedID(name string) bool {
	return name != "" && name[0] != '.' && !strings.ContainsAny(name, "/\x00")
}

// open opens the directory of the store, which is not there before the first
// refusal, nor without a state directory.
func (rj *rejects) open() (int, error) {
	if rj.f.state == nil {
		return -1, unix.ENOENT
	}
	return statedir.OpenDir(int(rj.f.state.Fd()), commit.RejectedDir)
}

// entry describes an entry of the store dir, if the viewer may know of it.
func (rj *rejects) entry(dir int, id string, v locksdir.Viewer) (locksdir.Rejected, bool) {
	k, st, ok := rj.find(dir, id)
	if !ok {
		return locksdir.Rejected{}, false
	}
	r := locksdir.Rejected{
		ID: id, Time: k.at, UID: k.uid, GID: k.gid, Mode: k.mode, Size: st.Size, Files: rejectedFiles{rj, id},
	}
	return r, rj.f.lookOf(v).seesRejected(&k)
}

// seesRejected reports whether the viewer may know of kept bytes, as far as their mode
// lets it read them: their owner may, and whoever could reach the file then and may
// read it now.
func (l *look) seesRejected(k *keptFile) bool {
	switch {
	case l.Viewer().Privileged, l.Viewer().UID == k.uid:
		return true
	case k.acl, k.path == "", !l.couldReach(k.reach), l.Way(reach.Dir(k.path)) != reach.All:
		return false
	}
	return l.ReadsNow(k.path) == reach.ReadYes
}

// find finds an entry of the store dir, and the status of its content.
func (rj *rejects) find(dir int, id string) (k keptFile, st unix.Stat_t, ok bool) {
	err := unix.Fstatat(dir, id+"/"+commit.RejectedContent, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return k, st, false
	}
	return rj.look(dir, id, &st), st, true
}

// look returns what is known about an entry whose content has the status st.
func (rj *rejects) look(dir int, id string, st *unix.Stat_t) keptFile {
	rj.mu.Lock()
	k, ok := rj.known[id]
	rj.mu.Unlock()
	if ok {
		return k
	}
	b, err := readMeta(dir, id)
	k, ok = parseKept(b)
	if !ok {
		// With a full disk bytes are kept without a meta.json.
		k = keptFile{at: time.Unix(st.Mtim.Unix()), uid: st.Uid, gid: st.Gid, mode: 0o600}
	}
	if err != nil && err != unix.ENOENT {
		return k // may be readable the next time
	}
	rj.mu.Lock()
	defer rj.mu.Unlock()
	if rj.known == nil {
		rj.known = map[string]keptFile{}
	}
	rj.known[id] = k
	return k
}

// parseKept reads what commit.Shadow.Reject has written.
func parseKept(meta []byte) (keptFile, bool) {
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
		return keptFile{}, false
	}
	mode, err := strconv.ParseUint(m.File.Mode, 8, 12)
	if err != nil {
		return keptFile{}, false
	}
	k := keptFile{path: m.Path, at: m.Time, uid: m.File.UID, gid: m.File.GID, mode: uint32(mode), acl: m.ACL}
	if len(m.Raw) > 0 {
		k.path = string(m.Raw)
	}
	if m.Dirs != nil {
		k.reach.Known = true
		for _, d := range *m.Dirs {
			k.reach.Gates = append(k.reach.Gates, history.Gate{UID: d[0], GID: d[1], Mode: d[2]})
		}
	}
	return k, true
}

// keptBase is the version that a refused write was based on, for meta.json; nil if
// the file was new.
func keptBase(v *commit.Version) any {
	if v == nil {
		return nil
	}
	return map[string]any{"size": v.Size, "mtime": time.Unix(v.Mtime.Unix()).UTC().Format(time.RFC3339Nano)}
}

// forget drops what is known about entries that are gone.
func (rj *rejects) forget(left []dirEntry) {
	rj.mu.Lock()
	defer rj.mu.Unlock()
	if len(rj.known) <= len(left) {
		return
	}
	still := make(map[string]keptFile, len(left))
	for i := range left {
		if k, ok := rj.known[left[i].name]; ok {
			still[left[i].name] = k
		}
	}
	rj.known = still
}

// rejectedFiles opens the files of one entry.
type rejectedFiles struct {
	rj *rejects
	id string
}

// keptContent is an open content file.
type keptContent struct {
	*os.File
	size int64
}

// Size implements locksdir.Content.
func (c keptContent) Size() int64 { return c.size }

// Content implements locksdir.RejectedFiles.
func (r rejectedFiles) Content() (locksdir.Content, error) {
	dir, err := r.rj.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := openKept(dir, r.id+"/"+commit.RejectedContent)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return keptContent{os.NewFile(uintptr(fd), r.id), st.Size}, nil
}

// Meta implements locksdir.RejectedFiles.
func (r rejectedFiles) Meta() ([]byte, error) {
	dir, err := r.rj.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	return readMeta(dir, r.id)
}

func readMeta(dir int, id string) ([]byte, error) {
	fd, err := openKept(dir, id+"/"+commit.RejectedMeta)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), id)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxRejectedMeta))
}

func openKept(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}
