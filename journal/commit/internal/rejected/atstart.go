package rejected

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// AtStart opens what has to be open in the state directory dir before there can be a Store. On
// a full disk it takes the ballast: whoever is to make room has to have started.
func AtStart[T any](dir *os.File, open func() (T, error)) (T, error) {
	for {
		opened, err := open()
		if !isNoRoom(err) || !takeBallast(func(name string) error { return unix.Unlinkat(int(dir.Fd()), name, 0) }) {
			return opened, err
		}
	}
}

// takeBallast gives one piece of the ballast back, and reports whether there was any.
func takeBallast(remove func(name string) error) bool {
	for i := range BallastCount {
		if remove(BallastName(i)) == nil {
			return true
		}
	}
	return false
}

func isNoRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
