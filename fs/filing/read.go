package filing

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/claimfile"
	"latchfs/lockmgr/policy/lockfile"
)

// maxFile is how much of a claim file is read: what is longer is malformed.
const maxFile = 64<<10 + 1

// The files of a claim that is a directory.
const (
	ownerFile  = "owner"
	recordFile = "record.json"
)

var errNoFile = errors.New("it is not a file")

// read reads a claim file, or a directory that is one, and when it was written.
func read(dirfd int, name string, rule *lockfile.Convention) (c claimfile.Content, made time.Time, err error) {
	var st unix.Stat_t
	if rule.Format != lockfile.OwnerDir {
		c.Data, err = readSmall(dirfd, name, &st)
		return c, time.Unix(st.Ctim.Unix()), err
	}
	fd, err := openDir(dirfd, name)
	if err != nil {
		return c, made, err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return c, made, err
	}
	made = time.Unix(st.Ctim.Unix())
	if c.Owner, err = readSmall(fd, ownerFile, &st); err == nil {
		c.HasOwner = true
	}
	if c.Record, err = readSmall(fd, recordFile, &st); err == nil {
		c.HasRecord = true
	}
	return c, made, nil
}

// readSmall reads the beginning of a regular file, and its status.
func readSmall(dirfd int, name string, st *unix.Stat_t) ([]byte, error) {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readBeginning(fd, st)
}

// readBeginning is readSmall of an open file.
func readBeginning(fd int, st *unix.Stat_t) ([]byte, error) {
	if err := unix.Fstat(fd, st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNoFile
	}
	data := make([]byte, min(st.Size, maxFile))
	n, err := unix.Pread(fd, data, 0)
	return data[:max(n, 0)], err
}

// openDir opens a directory to list it, and to read what is in it.
func openDir(dirfd int, name string) (int, error) {
	return unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
