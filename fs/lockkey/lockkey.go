// Package lockkey says what a lock is on, and how the keys of the lock table spell it.
// It is pure: no I/O, no mutex, and nothing but the lock table's types.
//
//	a/b            the name of a file, or of a directory with everything below it; and
//	               what the policy makes several files share
//	//inode/d:i    an inode that has several names, or whose file is live
//	//name/n       a lock that stands for no file
//
// A path is relative to the mount's root, which is the empty path. None begins with a
// slash, so the other keys are no paths.
package lockkey

import (
	"fmt"
	"slices"
	"strings"

	"latchfs/lockmgr"
)

// Target is what somebody asks a lock for: names of files, directories with everything
// below them, and locks that stand for no file.
type Target struct {
	Paths, Trees, Names []string
}

// Len is how many things it names.
func (t *Target) Len() int { return len(t.Paths) + len(t.Trees) + len(t.Names) }

// First is by what it is called in messages.
func (t *Target) First() (path, name string) {
	switch {
	case len(t.Paths) > 0:
		return t.Paths[0], ""
	case len(t.Trees) > 0:
		return t.Trees[0], ""
	case len(t.Names) > 0:
		return "", t.Names[0]
	}
	return "", ""
}

// Each splits it into the things that it names.
func (t *Target) Each() []Target {
	out := make([]Target, 0, t.Len())
	for _, p := range t.Paths {
		out = append(out, Target{Paths: []string{p}})
	}
	for _, p := range t.Trees {
		out = append(out, Target{Trees: []string{p}})
	}
	for _, n := range t.Names {
		out = append(out, Target{Names: []string{n}})
	}
	return out
}

// Meets reports whether t and o name the same thing.
func (t *Target) Meets(o *Target) bool {
	in := func(b []string) func(string) bool {
		return func(s string) bool { return slices.Contains(b, s) }
	}
	return slices.ContainsFunc(t.Paths, in(o.Paths)) || slices.ContainsFunc(t.Trees, in(o.Trees)) || slices.ContainsFunc(t.Names, in(o.Names))
}

// Without is what is left of t when the things that o names are taken away.
func (t *Target) Without(o *Target) Target {
	minus := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	return Target{minus(t.Paths, o.Paths), minus(t.Trees, o.Trees), minus(t.Names, o.Names)}
}

// Set sorts a list, and has each element once.
func Set(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

const (
	inodePrefix = "//inode/"
	namePrefix  = "//name/"
)

// Inode is the key of an inode.
func Inode(dev, ino uint64) lockmgr.Key {
	return lockmgr.Key(fmt.Sprintf(inodePrefix+"%x:%d", dev, ino))
}

// Name is the key of a lock that stands for no file.
func Name(name string) lockmgr.Key { return lockmgr.Key(namePrefix + name) }

// NameOf is the name whose key it is, if it is one's.
func NameOf(k lockmgr.Key) (name string, ok bool) { return strings.CutPrefix(string(k), namePrefix) }

// IsPath reports whether a key is a path.
func IsPath(k lockmgr.Key) bool { return !strings.HasPrefix(string(k), "//") }

// IsInode reports whether a key is that of an inode.
func IsInode(k lockmgr.Key) bool { return strings.HasPrefix(string(k), inodePrefix) }

// IsShown reports whether people see the lock under the key: they see it under its paths
// and names, or else under the one key that it has.
func IsShown(h *lockmgr.Holder, k lockmgr.Key) bool {
	_, isName := NameOf(k)
	return IsPath(k) || isName || len(h.Keys) == 1
}

// Shown is the key by which people are told of a lock.
func Shown(h *lockmgr.Holder) string {
	i := slices.IndexFunc(h.Keys, IsPath)
	switch {
	case i >= 0:
		return string(h.Keys[i])
	case len(h.Keys) > 0:
		return string(h.Keys[0])
	}
	return ""
}

// ShownAt is the path, if the lock is on it, or else Shown.
func ShownAt(h *lockmgr.Holder, path string) string {
	if slices.Contains(h.Keys, lockmgr.Key(path)) {
		return path
	}
	return Shown(h)
}

// Shared is the key that the lock shares with those on other names of its file, or key,
// under which people see it, if there is none.
func Shared(h *lockmgr.Holder, key string) string {
	for _, k := range h.Keys {
		if _, isName := NameOf(k); !IsPath(k) && !isName {
			return string(k)
		}
	}
	return key
}
