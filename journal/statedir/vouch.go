package statedir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	lastAttr = "trusted.latchfs.state" // of the data root: the number of its last state directory
	ownAttr  = "trusted.latchfs.id"    // of a state directory: its number
)

// Trust says how far a state directory that is this user's own may be believed.
type Trust uint8

// The degrees of trust.
const (
	// Unproven: somebody else could have put a former one in its place, and nothing
	// says whether he has.
	Unproven Trust = iota
	// Proven: it is the last one that was used here.
	Proven
)

// ErrReplaced is the error for a state directory that is not the one that was last
// used with its data root.
var ErrReplaced = errors.New("not the state directory that was last used here")

// Exposed reports whether somebody else than this user can rename what lies in root:
// its owner, or those who may write to it unless it is sticky.
func Exposed(root int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(root, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return false, os.NewSyscallError("fstatat", err)
	}
	foreign := int(st.Uid) != os.Geteuid()
	return foreign || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0, nil
}

// Judge says whether the state directory dir may be believed to be the last one that
// was used with root. The error is ErrReplaced if it is known to be another.
func Judge(root int, dir *os.File) (Trust, error) {
	if os.Geteuid() != 0 {
		return Proven, nil // who runs this can make what he likes here, but for himself only
	}
	exposed, err := Exposed(root)
	if err != nil {
		return Unproven, err
	}
	last, err := read(root, lastAttr)
	if err != nil {
		return Unproven, err
	}
	own, err := read(int(dir.Fd()), ownAttr)
	switch {
	case err != nil:
		return Unproven, err
	case last != nil && bytes.Equal(last, own):
		return Proven, nil
	case last != nil:
		return Unproven, ErrReplaced
	case exposed:
		return Unproven, nil
	}
	return Proven, nil
}

// Forgotten reports whether another state directory than the one that was just made
// is the last one that was used with root: it is gone.
func Forgotten(root int) bool {
	last, err := read(root, lastAttr)
	return err == nil && last != nil
}

// Vouch makes dir the last state directory that was used with root. Where nobody but
// this user can rename it there is nothing to be said, nor where the filesystem has
// no place for it.
func Vouch(root int, dir *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	exposed, err := Exposed(root)
	if err != nil || !exposed && !Forgotten(root) {
		return err
	}
	own, err := read(int(dir.Fd()), ownAttr)
	if err != nil {
		return err
	}
	if own == nil {
		own = []byte(rand.Text())
		if err := unix.Setxattr(procPath(int(dir.Fd())), ownAttr, own, 0); err != nil {
			return ifSupported(err)
		}
	}
	if last, err := read(root, lastAttr); err == nil && bytes.Equal(last, own) {
		return nil
	}
	return ifSupported(unix.Setxattr(procPath(root), lastAttr, own, 0))
}

// read returns an attribute, nil if there is none.
func read(fd int, attr string) ([]byte, error) {
	buf := make([]byte, 256)
	n, err := unix.Getxattr(procPath(fd), attr, buf)
	if err == unix.ENODATA {
		return nil, nil
	}
	if err != nil {
		return nil, ifSupported(err)
	}
	return buf[:n], nil
}

// ifSupported is err, unless it says that there can be no such attributes here: the
// filesystem has none, or this is not the root of the whole machine.
func ifSupported(err error) error {
	if err == nil || err == unix.EOPNOTSUPP || err == unix.EPERM {
		return nil
	}
	return fmt.Errorf("extended attribute: %w", err)
}

// procPath names a descriptor's inode for calls that take no O_PATH descriptors.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
