package policy

import (
	"fmt"
	"strings"

	"latchfs/lockmgr/policy/internal/naming"
	"latchfs/lockmgr/policy/internal/position"
)

// Key says which lock a file shares with others: "file", "directory", or
// "group:" and the name of a group.
type Key string

// The keys (SEED "scope": file, directory, name). A group has one of its own,
// see Group.
const (
	// FileKey: each file has a lock of its own.
	FileKey Key = "file"
	// DirectoryKey: all that is in one directory, but not what is in directories
	// below it, shares one lock (SEED W3).
	DirectoryKey Key = "directory"
)

// groupKey stands before the name of a group.
const groupKey = "group:"

// Group returns the name of the group with which the files share a lock,
// wherever they are.
func (k Key) Group() (name string, ok bool) {
	return strings.CutPrefix(string(k), groupKey)
}

// MapsNames reports whether any path may have a LockName other than itself.
func (p *Policy) MapsNames() bool { return p.mapsAny }

// LockName is the name under which the lock table knows a path relative to the
// data root: paths with the same name share one lock. It is
//
//	//group/NAME        for key = "group:NAME", with or without an alias;
//	//alias/NAME/REL    for the path REL below a root of an alias;
//	relPath             else.
//
// With key = "directory" it is the directory of that: of "a/b/c", "a/b", of a
// file in the data root "//root", and of one in a root of an alias
// "//alias/NAME". The data root itself is in no directory and keeps its name "".
// No path starts with '/', so that no name is that of another file.
func (p *Policy) LockName(relPath string) string {
	if !p.mapsAny {
		return relPath
	}
	if name, ok := p.names.get(relPath); ok {
		return name
	}
	name := p.lockName(relPath)
	p.names.put(relPath, name)
	return name
}

// lockName works out what LockName remembers.
func (p *Policy) lockName(relPath string) string {
	key := p.settingsOf(relPath).Key
	if group, ok := key.Group(); ok {
		return "//group/" + group
	}
	name := relPath
	for i := range p.aliases {
		var decides bool
		if name, decides = p.aliases[i].name(relPath); decides {
			break
		}
	}
	if key == DirectoryKey {
		return directoryOf(name)
	}
	return name
}

// directoryOf is the lock name of what is in the same directory as a name.
func directoryOf(name string) string {
	if name == "" {
		return ""
	}
	if dir := naming.Dir(name); dir != "" {
		return dir
	}
	return "//root"
}

// lockKey reads a key.
func (p *parser) lockKey(at position.Node, v any) Key {
	const want = `must be "file", "directory" or "group:NAME"`
	s, ok := v.(string)
	if !ok {
		p.Fail(at, "key %s", want)
		return ""
	}
	switch key := Key(s); key {
	case FileKey, DirectoryKey:
		return key
	default:
		group, ok := key.Group()
		if !ok {
			p.Fail(at, "bad key %q: %s", s, want)
		} else if !naming.Valid(group) {
			p.Fail(at, "bad key %q: %s", s, naming.Rule)
		}
		return key
	}
}

// checkVariable says why a name cannot be that of an environment variable, or "".
func checkVariable(name string) string {
	valid := name != "" && !digit(name[0])
	for _, c := range []byte(name) {
		valid = valid && (lower(c) || 'A' <= c && c <= 'Z' || digit(c) || c == '_')
	}
	if valid {
		return ""
	}
	return fmt.Sprintf("bad variable %q: a name is letters, digits and '_', and does not start with a digit", name)
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }
