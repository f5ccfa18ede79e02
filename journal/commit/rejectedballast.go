package commit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// Ballast is space that is held in the state directory to be given back on a
// full disk: keeping refused bytes costs a directory, an entry in another and a
// short file, and it is on a full disk that writes are refused.
const (
	ballastPrefix = "ballast-"
	ballastCount  = 8
	ballastSize   = 64 << 10
)

// doWithRoom is do, with ballast dropped while there is no room, and then the
// oldest of the refused bytes that are kept: the latest are worth more.
func (s *rejects) doWithRoom(step string, fn func() error) error {
	for drops := 0; ; {
		err := s.do(step, fn)
		switch {
		case !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT):
			return err
		case s.dropBallast():
		case drops < maxDrops && s.dropRejected():
			drops++
		default:
			return err
		}
	}
}

func (s *rejects) dropBallast() bool {
	s.mu.Lock()
	s.ballast = false
	s.mu.Unlock()
	for i := range ballastCount {
		if s.do("unlink", func() error { return unix.Unlinkat(s.stateFD(), ballastName(i), 0) }) == nil {
			return true
		}
	}
	return false
}

// stockBallast makes what is missing of the ballast, as far as there is room.
func (s *rejects) stockBallast() {
	s.mu.Lock()
	complete := s.ballast
	s.mu.Unlock()
	if complete {
		return
	}
	for i := range ballastCount {
		err := s.do("ballast", func() error { return makeBallast(s.stateFD(), ballastName(i)) })
		if err != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ballast = true
}

// noBallast leaves the ballast as it is: tests of other things than a full disk save
// the time that it takes.
func (s *rejects) noBallast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ballast = true
}

func makeBallast(dir int, name string) error {
	fd, err := statedir.OpenFile(dir, name, unix.O_CREAT|unix.O_RDWR)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Fallocate(fd, 0, 0, ballastSize)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = writeAll(fd, make([]byte, ballastSize), 0)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0)
	}
	return err
}

func ballastName(i int) string { return fmt.Sprintf("%s%d", ballastPrefix, i) }
