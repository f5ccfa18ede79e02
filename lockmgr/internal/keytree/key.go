package keytree

import "strings"

// Key names one thing. It is opaque but for one property: '/' separates components,
// so that a key can be moved with everything below it. Keys are compared byte by byte,
// and nothing is cleaned.
type Key string

// Apart is the root of the keys that begin with it.
const Apart Key = "//"

// Below reports whether k lies strictly below dir by its spelling. So nothing but what
// begins with '/' lies below the empty key: see In.
func (k Key) Below(dir Key) bool {
	return len(k) > len(dir) && k[len(dir)] == '/' && strings.HasPrefix(string(k), string(dir))
}

// In reports whether top is above k: its node is the parent of k's, or above that. All
// keys are in the tree of their root: that of Apart, or else that of the empty key.
func (k Key) In(top Key) bool {
	switch {
	case k.isApart() != top.isApart():
		return false
	case top == "" || top == Apart:
		return k != top
	}
	return k.Below(top)
}

func (k Key) isApart() bool { return strings.HasPrefix(string(k), string(Apart)) }

// Parent is k without its last component; the parent of a single component is
// the empty key, or Apart. A root is its own parent.
func (k Key) Parent() Key {
	i := strings.LastIndexByte(string(k), '/')
	switch {
	case i <= 1 && len(k) > 1 && k[:2] == Apart:
		return Apart
	case i >= 0:
		return k[:i]
	}
	return ""
}

// Moved is the name of k, which is from or below it, after from has become to.
func (k Key) Moved(from, to Key) Key { return to + Key(strings.TrimPrefix(string(k), string(from))) }
