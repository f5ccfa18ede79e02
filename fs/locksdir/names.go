package locksdir

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// queueSuffix ends the names of queues in names/.
	queueSuffix = ".queue"
	// maxName is NAME_MAX, the longest name in bytes.
	maxName = 255
)

// validPath reports whether path can be walked component by component: "" (the
// root), or names that a directory can have.
func validPath(path string) bool {
	if path == "" {
		return true
	}
	if strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || len(name) > maxName {
			return false
		}
	}
	return true
}

// oddName makes the name of a file that cannot have its own (see the package
// comment). Equal tables give equal names.
func oddName(base, path, suffix string, taken func(string) bool) string {
	sum := sha256.Sum256([]byte(path))
	hash := hex.EncodeToString(sum[:])
	for digits := 8; digits <= len(hash); digits *= 2 {
		tail := "~" + hash[:digits] + suffix
		if name := cut(base, maxName-len(tail)) + tail; !taken(name) {
			return name
		}
	}
	// Somebody made files whose names are hashes of this path, on purpose.
	for n := 2; ; n++ {
		tail := "~" + hash + "~" + strconv.Itoa(n) + suffix
		if name := cut(base, maxName-len(tail)) + tail; !taken(name) {
			return name
		}
	}
}

// cut shortens name to at most size bytes, without cutting a character in two.
func cut(name string, size int) string {
	if len(name) <= size {
		return name
	}
	if utf8.ValidString(name) {
		for !utf8.RuneStart(name[size]) {
			size--
		}
	}
	return name[:size]
}
