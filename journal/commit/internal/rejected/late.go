package rejected

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// nameLater notes an entry that has its content, and has found no room for its name.
func (s *Store) nameLater(tmp string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, tmp)
}

// NameLate gives such entries their names. What finds no room again gets its name at the next
// start, see Tidy.
func (s *Store) NameLate() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	if len(late) == 0 {
		return
	}
	rejected, err := s.openRejected()
	if err != nil {
		return
	}
	defer unix.Close(rejected)
	for _, tmp := range late {
		id := strings.TrimPrefix(tmp, NewPrefix)
		err := s.disk.Do("rename", func() error { return unix.Renameat(rejected, tmp, rejected, id) })
		switch {
		case err == nil:
			s.added(rejected, id, false)
		case !errors.Is(err, unix.ENOENT): // a recovery may have been here
			s.nameLater(tmp)
		}
	}
}
