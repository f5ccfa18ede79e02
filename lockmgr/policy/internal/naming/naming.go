// Package naming says which names locks and directories may have, and takes paths apart.
// A path is relative to the data root, as the kernel gives it: "a/b", without a '/' at
// either end; "" is the data root itself.
//
// The package is pure.
package naming

import (
	"path"
	"strings"
)

// MaxLen is the length of the longest name of a lock, in bytes (SEED T2).
const MaxLen = 128

// Rule says in an error which names Valid accepts.
const Rule = "a name is 1 to 128 of a-z, 0-9, '-' and '_', without '-' or '_' at either end"

// Valid reports whether a named lock, a group or an alias may have this name (SEED T2).
func Valid(name string) bool {
	return 1 <= len(name) && len(name) <= MaxLen &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "" && strings.Trim(name, "-_") == name
}

// IsDirectory reports whether dir is the path of a directory below the data root, and not
// the root itself.
func IsDirectory(dir string) bool {
	return dir != "" && dir != "." && dir != ".." && !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "../") &&
		!strings.ContainsRune(dir, 0) && path.Clean(dir) == dir
}

// Dir is a path without its last component, "" for what is in the data root.
func Dir(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// Join puts a path below a directory.
func Join(dir, rest string) string {
	if dir == "" {
		return rest
	}
	return dir + "/" + rest
}
