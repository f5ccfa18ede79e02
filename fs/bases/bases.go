// Package bases keeps what replaced versions held, where changes are merged: the history
// may have dropped one while somebody who has read it still writes a change of it.
//
// A base is the content of one version: an inode that has lost its name, behind a
// descriptor, or bytes that never were a file's. It is known by the key under which
// package knowledge counts the version, and by its number. Where a directory above gets
// another name the key becomes another one (Follow), and with it the numbers: from then
// on the base is found by its stamp.
//
//	{key, number}      as it was put
//	{key, 0, moved}    as it was moved; moved is unique
//
// A base is what it was, or it is not there. What stands under its descriptor is compared
// with its stamp when it is asked for: it may have been written to since, and whoever
// reaches the directory otherwise may have given the name to another file before the
// descriptor was opened. The numbers of a key begin anew once it was forgotten. So the number
// alone is not enough: a base that was replaced before a program read the version of that
// number is the content of another version.
//
// At most MaxCount are kept, with MaxBytes together; what was used longest ago goes first.
//
// Store.mu guards the list. It is held while a base is read, which is up to merge.MaxSize
// bytes of a file that nobody else has a name for; nobody takes another mutex meanwhile.
package bases

import (
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
)

// The bounds of what is kept.
const (
	MaxCount = 256
	MaxBytes = 128 << 20
)

// lateRead is how much later than its replacement a version may count as read: an open
// is noted when it is answered.
const lateRead = 2 * time.Second

// Store keeps bases. The zero Store is empty.
type Store struct {
	mu    sync.Mutex // guards what follows
	list  map[id]*base
	bytes int64
	tick  uint64
}

type id struct {
	key    knowledge.Key
	number uint64
	moved  uint64 // unique, in place of the number, once the key has become another one
}

// base is the content of one version.
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

// PutFile keeps the file behind fd, which is the store's from then on, as a version that
// has just been replaced and had the stamp.
func (s *Store) PutFile(key knowledge.Key, number uint64, fd int, stamp knowledge.Stamp) {
	s.put(id{key: key, number: number}, &base{fd: fd, size: stamp.Size, stamp: stamp, until: time.Now()})
}

// PutBytes keeps data, which is the store's from then on, as a version that never was a
// file's and has just been replaced.
func (s *Store) PutBytes(key knowledge.Key, number uint64, data []byte, stamp knowledge.Stamp) {
	s.put(id{key: key, number: number}, &base{fd: -1, data: data, size: int64(len(data)), stamp: stamp, until: time.Now()})
}

func (s *Store) put(as id, b *base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[id]*base{}
	}
	s.dropLocked(as)
	s.useLocked(b)
	s.list[as] = b
	s.bytes += b.size
	for len(s.list) > MaxCount || s.bytes > MaxBytes {
		oldest, used := id{}, s.tick+1
		for at, b := range s.list {
			if b.used < used {
				oldest, used = at, b.used
			}
		}
		s.dropLocked(oldest)
	}
}

func (s *Store) useLocked(b *base) {
	s.tick++
	b.used = s.tick
}

func (s *Store) dropLocked(at id) {
	if b := s.list[at]; b != nil {
		b.close()
		s.bytes -= b.size
		delete(s.list, at)
	}
}

// Content returns what the version held that the basis names, of the file with the key. The
// caller must not change it. It returns false if that content is not kept any more.
func (s *Store) Content(key knowledge.Key, of *knowledge.Basis) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, kept := s.findLocked(key, of)
	if kept == nil || kept.until.Before(of.At.Add(-lateRead)) || of.Stamp != (knowledge.Stamp{}) && of.Stamp != kept.stamp {
		return nil, false
	}
	s.useLocked(kept)
	if kept.fd < 0 {
		return kept.data, true
	}
	data, st, err := Read(kept.fd)
	if err != nil || StampOf(st) != kept.stamp {
		s.dropLocked(at) // it was written to after all, or is another file
		return nil, false
	}
	return data, true
}

// findLocked finds the base that the basis names: by its number or, if a directory above the
// file was renamed since, by its stamp.
func (s *Store) findLocked(key knowledge.Key, of *knowledge.Basis) (at id, kept *base) {
	at = id{key: key, number: of.Version}
	kept = s.list[at]
	if of.Stamp == (knowledge.Stamp{}) || kept != nil && kept.stamp == of.Stamp {
		return at, kept
	}
	for other, b := range s.list {
		if other.key == key && other.moved != 0 && b.stamp == of.Stamp {
			at, kept = other, b
		}
	}
	return at, kept
}

// Follow moves what is kept when a directory gets another name: path tells by which path
// what had a path before is reached now.
func (s *Store) Follow(path func(before string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range slices.Collect(maps.Keys(s.list)) {
		key := knowledge.Key(path(string(at.key)))
		if key == at.key {
			continue
		}
		b := s.list[at]
		delete(s.list, at)
		s.tick++
		s.list[id{key: key, moved: s.tick}] = b
	}
}

// Close drops everything.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.list {
		s.dropLocked(at)
	}
}

// StampOf is by what package knowledge tells the file st from others.
func StampOf(st *unix.Stat_t) knowledge.Stamp {
	return knowledge.Stamp{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}
}

// Read reads a file of up to merge.MaxSize bytes from its beginning, whatever the
// descriptor's offset is, and tells its attributes.
func Read(fd int) ([]byte, *unix.Stat_t, error) {
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
