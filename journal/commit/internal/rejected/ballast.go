package rejected

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/statedir"
)

// Ballast is space that is held in the state directory to be given back on a
// full disk: keeping refused bytes costs a directory, an entry in another and a
// short file, and it is on a full disk that writes are refused.
const (
	BallastPrefix = "ballast-"
	BallastCount  = 8
	ballastSize   = 64 << 10
)

// DoWithRoom is do, with ballast dropped while there is no room, and then the
// oldest of the refused bytes that are kept: the latest are worth more.
func (s *Store) DoWithRoom(step string, fn func() error) error {
	for drops := 0; ; {
		err := s.disk.Do(step, fn)
		switch {
		case !isNoRoom(err):
			return err
		case s.dropBallast():
		case drops < MaxDrops && s.dropOldest():
			drops++
		default:
			return err
		}
	}
}

func (s *Store) dropBallast() bool {
	s.mu.Lock()
	s.ballast = false
	s.mu.Unlock()
	return takeBallast(func(name string) error {
		return s.disk.Do("unlink", func() error { return unix.Unlinkat(s.disk.StateFD(), name, 0) })
	})
}

// StockBallast makes what is missing of the ballast, as far as there is room.
func (s *Store) StockBallast() {
	s.mu.Lock()
	complete := s.ballast
	s.mu.Unlock()
	if complete {
		return
	}
	for i := range BallastCount {
		err := s.disk.Do("ballast", func() error { return makeBallast(s.disk.StateFD(), BallastName(i)) })
		if err != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ballast = true
}

// NoBallast leaves the ballast as it is: tests of other things than a full disk save
// the time that it takes.
func (s *Store) NoBallast() {
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
		err = disk.WriteAll(fd, make([]byte, ballastSize), 0)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0)
	}
	return err
}

// BallastName returns the name of a file of the ballast.
func BallastName(i int) string { return fmt.Sprintf("%s%d", BallastPrefix, i) }
