// Package links tells by the link of a descriptor, /proc/PID/fd/N, what may be done with
// it. It is pure: links come in.
//
// The link of what a filesystem has is its path, which begins with a slash, whatever its
// mount; that of anything else is "KIND:[NUMBER]", which is no path. Start bytes of a link
// are enough for all questions.
package links

import "bytes"

// Start is as much of a link as it takes to tell.
const Start = 16

// IsAnonymous reports whether a descriptor is of something that no filesystem has. An epoll
// instance is such, and says nothing of itself while its events are written to memory that
// does not answer; nothing ends that wait, not even the death of who waits.
func IsAnonymous(link []byte) bool {
	for _, kind := range [...]string{"anon_inode:", "pipe:[", "socket:["} {
		if bytes.HasPrefix(link, []byte(kind)) {
			return true
		}
	}
	return false
}

// MayWait reports whether the fdinfo of a descriptor may take a while: some devices take
// locks for it.
func MayWait(link []byte) bool {
	if !bytes.HasPrefix(link, []byte("/dev/")) {
		return false
	}
	for _, dir := range [...]string{"/dev/pts/", "/dev/shm/"} {
		if bytes.HasPrefix(link, []byte(dir)) {
			return false
		}
	}
	switch string(link) {
	case "/dev/null", "/dev/zero", "/dev/tty", "/dev/random", "/dev/urandom":
		return false
	}
	return true
}
