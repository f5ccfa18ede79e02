package merging

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/journal/commit"
)

// File is a name with the file that was seen there.
type File struct {
	Dir  int // descriptor of the directory; O_PATH will do
	Name string
	Stat *unix.Stat_t // of the file
}

// Read returns what the file holds; EBUSY if the name has another one, or that has changed.
func (f File) Read() ([]byte, error) {
	fd, err := commit.OpenUnnoticed(f.Dir, f.Name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data, is, err := bases.Read(fd)
	if err == nil && !f.is(is) {
		err = unix.EBUSY
	}
	return data, err
}

// is reports whether st is the file, unchanged.
func (f File) is(st *unix.Stat_t) bool { return bases.StampOf(st) == bases.StampOf(f.Stat) }

// Beginning returns the first bytes of the file, if it has as many, and the name has it.
func (f File) Beginning(size int64) ([]byte, bool) {
	data, err := f.Read()
	if err != nil || int64(len(data)) < size {
		return nil, false
	}
	return data[:size:size], true
}

// Write makes data the content of a file. Where there is no room for it the file is as it
// was, on filesystems that can set room aside.
func Write(fd int, data []byte) error {
	if len(data) > 0 {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data)))
		if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return err
		}
	}
	for n := 0; n < len(data); {
		m, err := unix.Pwrite(fd, data[n:], int64(n))
		if err != nil && err != unix.EINTR {
			return err
		}
		n += max(m, 0)
	}
	return unix.Ftruncate(fd, int64(len(data)))
}
