// Package lockfile has the conventions of the lock files that programs write, and says
// what such a file stands for by its path. A claim file is a lock file for which a policy
// declares the convention: while it is there, what it stands for is locked for the
// program that wrote it.
//
//	[[claim]]
//	glob        = ["locks/**/*.lock"]
//	format      = "clawdbot"  # "beads", "clawdbot", "lock/v1", "owner-dir" or "flock"
//	covers      = "file"      # "file", "directory" or "name"
//	root        = "locks"     # where claim files mirror a tree, and which
//	tree        = "src"
//	ttl         = "30s"       # after how long a claim is stale; "0s": never
//	foreign-ttl = "10s"       # the same for a claim of another host
//	on-stale    = "remove"    # "remove" or "keep"
//	malformed   = "free"      # "locked" or "free"
//
// The glob, the format and what is covered have to be given; the rest has a default that
// is the format's, and a key that means nothing for a format is an error. The first
// convention with a matching glob decides about a path. The claim file stands for
//
//	"directory"   the directory in which it lies, with all below it
//	"file"        the file that is called as it is without its extension: the file beside
//	              it or, with a root, the file that has the same path below tree as the
//	              claim file has below root
//	"name"        the named lock that is called as it is without its extension
//
// With "owner-dir" the claim file is a directory, and the record is in files in it.
//
// What is in a claim file, and when a claim is stale, is not known here. The package is
// pure: paths are strings, and a policy comes as a decoded document. A Set does not change,
// and may be used by several goroutines at once.
package lockfile
