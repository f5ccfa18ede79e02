// Package keytree keeps what belongs to keys in the tree that the keys describe. It is
// pure: what a node holds, and when that is worth keeping, its user says.
//
// A node exists as long as it is not idle or there is one below it, and so do the
// nodes of all keys above it. So a subtree is a subtree, however few of its keys are
// in use:
//
//	""
//	└── "d"            idle, but "d/f" is below
//	    └── "d/f"
//	"//"               a root of its own
//	└── "//x"
//
// Finding a node costs one look-up in a hash table, whatever the number of nodes;
// making one, a look-up for each key above it. Nodes that have gone are used again, so
// that a key that comes and goes needs no memory.
//
// A Tree has no mutex; its user's guards it.
package keytree
