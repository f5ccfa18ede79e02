package statedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// File is OpenFile for a caller that reads and writes through an *os.File. dir may be an
// O_PATH descriptor. The error is an *os.PathError around those of OpenFile.
func File(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := OpenFile(int(dir.Fd()), name, flags)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Sync makes the names in dir durable. dir may be an O_PATH descriptor.
func Sync(dir *os.File) error {
	d, err := File(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
