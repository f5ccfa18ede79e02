package fs

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// maxState bounds a file of state, against one that is not ours.
const maxState = 256 << 20

// readState reads a small file of the state directory.
func (dk *disk) readState(name string) ([]byte, error) {
	fd, err := statedir.OpenFile(int(dk.state.Fd()), name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxState))
}

// writeState replaces a small file of the state directory.
func (dk *disk) writeState(name string, data []byte) error {
	dir, temp := int(dk.state.Fd()), name+".new"
	fd, err := statedir.OpenFile(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), temp)
	_, err = file.Write(data)
	if e := file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
	}
	return err
}
