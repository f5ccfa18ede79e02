// Package listing reads directories, and keeps what an open one held when it was opened or
// rewound: so offsets stay good however the directory changes meanwhile.
//
// Read decodes what the kernel tells of a directory (getdents64(2)). A Stream is an open
// directory. What there is to be seen in it, and by whom, its user says (Dir); what its
// entries cost in memory is charged to whoever has opened it (Book). A long listing that has
// been read to its end is not kept.
//
// Stream.mu is held while the directory is read, so that two who read one stream see one
// listing.
package listing

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// Entry is a name in a directory.
type Entry struct {
	Name     string
	Ino      uint64
	Kind     uint32 // S_IFMT bits
	Volatile bool   // it leads to what depends on who asks: it is listed without attributes
}

// Read reads the entries of a whole directory that want accepts, from where fd stands.
func Read(fd int, want func(name string) bool) ([]Entry, error) {
	var list []Entry
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return list, nil
		}
		list = parse(list, buf[:n], want)
	}
}

// parse decodes linux_dirent64 records (getdents64(2)).
func parse(list []Entry, b []byte, want func(name string) bool) []Entry {
	const header = 8 + 8 + 2 + 1 // d_ino, d_off, d_reclen, d_type
	for len(b) > header {
		reclen := int(binary.NativeEndian.Uint16(b[16:]))
		if reclen <= header || reclen > len(b) {
			return list
		}
		name := b[header:reclen]
		for i, ch := range name {
			if ch == 0 {
				name = name[:i]
				break
			}
		}
		if want(string(name)) {
			list = append(list, Entry{Name: string(name), Ino: binary.NativeEndian.Uint64(b), Kind: uint32(b[18]) << 12})
		}
		b = b[reclen:]
	}
	return list
}

// IsDots reports whether a name is that of the directory itself, or of the one above.
func IsDots(name string) bool { return name == "." || name == ".." }

// Dir is an open directory, as somebody sees it who reads it.
type Dir interface {
	// Entries reads it; fd stands at its beginning.
	Entries(fd int) ([]Entry, error)
}

// Book is what the listings of a user cost; *account.Book keeps it.
type Book interface {
	Take(uid uint32, n int64) bool
	Give(uid uint32, n int64)
}

const (
	entryCost = 64 // beside the name
	// kept is how large a listing may be that stays when it has been read to its end.
	kept = 256 << 10
)

// Stream is an open directory with what it held when it was opened or rewound.
type Stream struct {
	uid  uint32 // who pays for the entries
	book Book

	mu      sync.Mutex // guards what follows
	fd      int
	loaded  bool
	entries []Entry
	charged int64
	end     uint64 // the offset behind the last entry
}

// NewStream makes a stream of the directory fd, which is its own from now on. A user pays for it.
func NewStream(fd int, uid uint32, book Book) *Stream {
	return &Stream{fd: fd, uid: uid, book: book}
}

// List returns all entries, of which those from offset on are asked for; nothing behind
// the last. From the start the directory is read anew, as rewinddir(3) asks. ENOMEM says that
// the user may not make us keep so much.
func (s *Stream) List(offset uint64, dir Dir) ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case offset == 0:
	case offset >= s.end && s.end > 0:
		if s.charged > kept {
			s.dropLocked() // it has been read
		}
		return nil, nil
	case s.loaded:
		return s.entries, nil
	}
	if _, err := unix.Seek(s.fd, 0, 0); err != nil {
		return nil, err
	}
	list, err := dir.Entries(s.fd)
	if err != nil {
		return nil, err
	}
	s.dropLocked()
	cost := costOf(list)
	if !s.book.Take(s.uid, cost) {
		return nil, unix.ENOMEM
	}
	s.entries, s.charged, s.loaded, s.end = list, cost, true, uint64(len(list))
	return list, nil
}

// costOf is what a listing keeps in memory.
func costOf(list []Entry) (n int64) {
	for i := range list {
		n += entryCost + int64(len(list[i].Name))
	}
	return n
}

// dropLocked forgets a listing. s.mu is held.
func (s *Stream) dropLocked() {
	s.book.Give(s.uid, s.charged)
	s.entries, s.charged, s.loaded = nil, 0, false
}

// Do does something with the directory, which stays open for as long.
func (s *Stream) Do(do func(fd int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do(s.fd)
}

// Close closes the directory, and gives back what it costs.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	unix.Close(s.fd)
	s.fd = -1
	s.dropLocked()
}
