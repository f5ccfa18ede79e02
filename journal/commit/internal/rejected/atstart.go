package rejected

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// AtStart does what has to be done in the state directory dir before there can be a Store. On
// a full disk it takes the ballast: whoever is to make room has to have started.
func AtStart(dir *os.File, do func() error) error {
	for i := 0; ; i++ {
		err := do()
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return err
		}
		for ; i < BallastCount && unix.Unlinkat(int(dir.Fd()), BallastName(i), 0) != nil; i++ {
		}
		if i >= BallastCount {
			return err
		}
	}
}
