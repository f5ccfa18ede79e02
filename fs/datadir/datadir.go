// Package datadir opens what a mount shows, and keeps other daemons out of it: the data
// directory, and in it the state directory. It refuses what cannot be mounted, and a state
// directory that is not latchfs's own, or may have been put in the place of the last one.
// What the state says is no business of it.
//
// A Dir is used by one goroutine while it is opened. Later only Vouch is called, by any. It
// has no mutex.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/mounts"
)

// Errors that Open and OpenState wrap. Each refusal names the path and the reason.
var (
	ErrNotDirectory = errors.New("not a directory")
	ErrInUse        = errors.New("data directory is in use by another latchfs")
	ErrReservedName = errors.New("reserved name exists in the data directory")
	ErrBadOption    = errors.New("bad option")
)

// Config says what is to be opened.
type Config struct {
	Path, Mountpoint string                        // as somebody has given them
	LocksDir         string                        // a name that the data directory must not have
	Warnf            func(format string, a ...any) // tells an operator
}

// Dir is a data directory that may be mounted.
type Dir struct {
	Path, Mountpoint string // absolute, and without symbolic links
	FD               int    // O_PATH
	Dev              uint64 // its device

	// After OpenState.
	State    *os.File
	StateIno uint64 // State's inode, and StateDev the device: whatever a name that leads there looks like
	StateDev uint64

	warnf func(format string, a ...any)
}

// Open opens the data directory and refuses what cannot be mounted. Dead mounts of latchfs
// that are in the way are taken away.
func Open(c Config) (*Dir, error) {
	path, err := canonical(c.Path)
	if err != nil {
		return nil, err
	}
	mnt, err := canonical(c.Mountpoint)
	if err != nil {
		return nil, err
	}
	switch {
	case mnt != path && inside(mnt, path):
		return nil, fmt.Errorf("%w: mountpoint %s lies inside the data directory %s", ErrBadOption, mnt, path)
	case mnt != path && inside(path, mnt):
		return nil, fmt.Errorf("%w: data directory %s lies inside the mountpoint %s", ErrBadOption, path, mnt)
	}
	for _, p := range []string{mnt, path} {
		if err := mounts.Clear(p); err != nil {
			return nil, err
		}
	}
	d := &Dir{Path: path, Mountpoint: mnt, warnf: c.Warnf}
	if d.FD, err = openResolved(path); err != nil {
		if err == unix.ENOTDIR {
			err = ErrNotDirectory
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := d.check(c.LocksDir); err != nil {
		unix.Close(d.FD)
		return nil, err
	}
	d.warnOfNetwork()
	// Nothing in a mount can be data of another one, which would find no place for its state.
	if i, err := mounts.On(path); err == nil && i != nil && i.FSType == mounts.FSType {
		unix.Close(d.FD)
		return nil, fmt.Errorf("%w: %s lies inside the mount at %s", mounts.ErrAlreadyMounted, path, i.Mountpoint)
	}
	return d, nil
}

// check looks at what has been opened.
func (d *Dir) check(locksDir string) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.FD, &st); err != nil {
		return fmt.Errorf("%s: %w", d.Path, err)
	}
	d.Dev = uint64(st.Dev)
	if unix.Fstatat(d.FD, locksDir, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fmt.Errorf("%w: %s already has an entry %q; choose another name with --locks-dir", ErrReservedName, d.Path, locksDir)
	}
	return nil
}

// canonical resolves path and removes a dead mount of ours that is in the way.
func canonical(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at, st := abs, os.FileInfo(nil)
	real, err := followLinks(abs)
	if err == nil {
		at = real
		st, err = os.Stat(real)
	}
	switch cleared, e := mounts.ClearDead(at, err); {
	case e != nil:
		return "", e
	case cleared:
		return canonical(path)
	case err != nil:
		return "", err
	case !st.IsDir():
		return "", fmt.Errorf("%s: %w", path, ErrNotDirectory)
	}
	return real, nil
}

func inside(path, dir string) bool {
	return dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Network filesystems, by statfs(2) magic number: on these other machines can
// change files too, and local locks do not reach them (SEED C16).
var networkTypes = map[int64]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x00c36400: "Ceph",
	0x01021997: "9P", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x0bd00bd0: "Lustre",
	0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x73757245: "Coda", 0x564c: "NCP",
	0x65735546: "FUSE",
}

func (d *Dir) warnOfNetwork() {
	var st unix.Statfs_t
	if unix.Fstatfs(d.FD, &st) != nil {
		return
	}
	if name, ok := networkTypes[int64(uint32(st.Type))]; ok {
		d.warnf("%s is on %s: programs on other machines are not kept out, only those on this one", d.Path, name)
	}
}
