package disk

import (
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// ReservedPrefix begins every name that this package gives to a file in a data
// directory. Such names are hidden from the users of the mount.
const ReservedPrefix = ".latchfs-"

// StateDirName is the name of the state directory at the data root.
const StateDirName = statedir.Name

// Reserved reports whether name is not for users: the state directory's name,
// and every name that begins with ReservedPrefix.
func Reserved(name string) bool {
	return name == StateDirName || strings.HasPrefix(name, ReservedPrefix)
}

// Generated reports whether name has exactly the form of what ClaimName returns. Only
// such names are ever removed; a user's file made around the mount that merely
// begins like one is left alone.
func Generated(name string) bool {
	hex, ok := strings.CutPrefix(name, ReservedPrefix)
	if !ok || len(hex) != 32 {
		return false
	}
	for _, c := range []byte(hex) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Version identifies one state of one file, as stat(2) tells it: any change of
// content or metadata gives a different one. Versions compare with ==.
type Version struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime unix.Timespec
}

// VersionOf returns the version that st shows.
func VersionOf(st *unix.Stat_t) Version {
	return Version{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim, Ctime: st.Ctim}
}

// SameContent reports whether two versions differ in nothing but their ctime,
// which giving the inode another name changes, too.
func (v Version) SameContent(w Version) bool {
	v.Ctime = w.Ctime
	return v == w
}

// LockName is the file in the state directory that whoever uses the data root
// holds a flock on.
const LockName = "daemon.lock"

// MarkerName is the file in the state directory that the markers of lazy commits are links
// of, each under a name that begins with MarkerPrefix. It is empty.
const (
	MarkerName   = "marker"
	MarkerPrefix = ReservedPrefix + "lazy-"
)

// IgnoreName is the file in the state directory that keeps git from adding it to a
// repository at the data root while nothing is mounted.
const IgnoreName = ".gitignore"
