package fs

import (
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// The bounds of what is kept to merge with, beside the history: so many versions,
// with so many bytes together. What was used longest ago goes first.
const (
	maxBases     = 256
	maxBaseBytes = 128 << 20
)

// bases keeps what replaced versions held, where changes are merged: the history may
// have dropped one while somebody who has read it still writes his change. A version
// is known by the number that package knowledge has for it.
type bases struct {
	mu    sync.Mutex // guards what follows
	list  map[baseID]*base
	bytes int64
	tick  uint64
}

type baseID struct {
	key    knowledge.Key
	number uint64
	moved  uint64 // unique, in place of the number, once the key has become another one
}

// base is the content of one version: its inode, or bytes that never were a file's.
type base struct {
	fd    int // -1: data has it
	data  []byte
	size  int64
	stamp knowledge.Stamp
	until time.Time // when it was replaced
	used  uint64
}

func (b *base) close() {
	if b.fd >= 0 {
		unix.Close(b.fd)
	}
}

// put keeps a base, which is the store's from then on.
func (bs *bases) put(id baseID, b *base) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.list == nil {
		bs.list = map[baseID]*base{}
	}
	bs.dropLocked(id)
	bs.tick++
	b.used = bs.tick
	bs.list[id] = b
	bs.bytes += b.size
	for len(bs.list) > maxBases || bs.bytes > maxBaseBytes {
		oldest, used := baseID{}, bs.tick+1
		for id, b := range bs.list {
			if b.used < used {
				oldest, used = id, b.used
			}
		}
		bs.dropLocked(oldest)
	}
}

func (bs *bases) dropLocked(id baseID) {
	if b := bs.list[id]; b != nil {
		b.close()
		bs.bytes -= b.size
		delete(bs.list, id)
	}
}

// lateRead is how much later than its replacement a version may count as read: an open
// is noted when it is answered.
const lateRead = 2 * time.Second

// content is what the version that b speaks of held. Numbers begin anew for a key
// that was forgotten meanwhile: a version that was replaced before somebody has read
// it is another one.
func (bs *bases) content(key knowledge.Key, b *knowledge.Basis) ([]byte, bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	id := baseID{key: key, number: b.Version}
	kept := bs.list[id]
	if b.Stamp != (knowledge.Stamp{}) && (kept == nil || kept.stamp != b.Stamp) {
		for other, o := range bs.list {
			if other.key == key && other.moved != 0 && o.stamp == b.Stamp {
				id, kept = other, o
			}
		}
	}
	if kept == nil || kept.until.Before(b.At.Add(-lateRead)) || b.Stamp != (knowledge.Stamp{}) && b.Stamp != kept.stamp {
		return nil, false
	}
	bs.tick++
	kept.used = bs.tick
	if kept.fd < 0 {
		return kept.data, true
	}
	data, st, err := readAllOf(kept.fd)
	if err != nil || stampOfFile(st) != kept.stamp {
		bs.dropLocked(id) // it was written to after all
		return nil, false
	}
	return data, true
}

func (bs *bases) close() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for id := range bs.list {
		bs.dropLocked(id)
	}
}

// baseContent is what the version held that the basis speaks of.
func (f *FS) baseContent(path string, b *knowledge.Basis) ([]byte, bool) {
	if b.Version == 0 {
		return nil, false
	}
	if data, ok := f.bases.content(knowledge.Key(path), b); ok {
		return data, true
	}
	if f.history == nil || b.Stamp == (knowledge.Stamp{}) {
		return nil, false
	}
	is := history.State{Ino: b.Stamp.Ino, Size: b.Stamp.Size, Mtime: b.Stamp.Mtime}
	for _, v := range slices.Backward(f.history.KeptOf(path)) {
		if v.State != is || is.Size > merge.MaxSize {
			continue
		}
		file, err := f.history.OpenContent(path, v.Number)
		if err != nil {
			return nil, false
		}
		defer file.Close()
		data, _, err := readAllOf(int(file.Fd()))
		return data, err == nil && int64(len(data)) == is.Size
	}
	return nil, false
}

// holdBase prepares to keep what the file st, which has the name p and is about to be
// replaced, holds: keep does that, once it is replaced.
func (f *FS) holdBase(p place, st *unix.Stat_t) (keep func(replaced bool)) {
	nothing := func(bool) {}
	if f.knowledge == nil || st == nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > merge.MaxSize {
		return nothing
	}
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	if set.LostUpdate != policy.Merge || !f.tracks(&set) {
		return nothing
	}
	key, stamp := knowledge.Key(path), stampOfFile(st)
	number, is := f.knowledge.Current(key)
	if number == 0 || is != stamp {
		return nothing // nobody has read it
	}
	fd, err := commit.OpenUnnoticed(f.fdOf(p.dir), p.name)
	if err != nil {
		return nothing
	}
	return func(replaced bool) {
		if !replaced {
			unix.Close(fd)
			return
		}
		f.bases.put(baseID{key: key, number: number}, &base{fd: fd, size: st.Size, stamp: stamp, until: time.Now()})
	}
}

// readAllOf reads a file of up to merge.MaxSize bytes from its beginning, whatever the
// descriptor's offset is, and tells its attributes.
func readAllOf(fd int) ([]byte, *unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, err
	}
	if st.Size > merge.MaxSize {
		return nil, nil, unix.EFBIG
	}
	data := make([]byte, st.Size+1)
	n := 0
	for n < len(data) {
		m, err := unix.Pread(fd, data[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, nil, os.NewSyscallError("pread", err)
		}
		if m == 0 {
			return data[:n], &st, nil
		}
		n += m
	}
	return nil, nil, io.ErrUnexpectedEOF // it grows
}
