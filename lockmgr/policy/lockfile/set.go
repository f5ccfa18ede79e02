package lockfile

import (
	"slices"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
)

// Set is the conventions of a policy, prepared for matching.
type Set struct {
	list      []Convention
	matchers  []matcher // in the order in which they decide
	ownerDirs bool      // some claim file is a directory
}

// matcher is one glob of a convention, prepared.
type matcher struct {
	glob       glob.Pattern
	convention *Convention
}

// NewSet prepares conventions, which are in the order in which they decide.
func NewSet(list []Convention) *Set {
	s := &Set{list: slices.Clone(list)} // they are pointed to
	for i := range s.list {
		c := &s.list[i]
		s.ownerDirs = s.ownerDirs || c.Format == OwnerDir
		for _, g := range c.Glob {
			s.matchers = append(s.matchers, matcher{glob.New(g), c})
		}
	}
	return s
}

// All returns the conventions in the order in which they decide. The caller must not
// change what they point to.
func (s *Set) All() []*Convention {
	all := make([]*Convention, len(s.list))
	for i := range s.list {
		all[i] = &s.list[i]
	}
	return all
}

// IsEmpty reports whether the set has no convention.
func (s *Set) IsEmpty() bool { return len(s.list) == 0 }

// Of returns the convention that a path relative to the data root is a claim file of: the
// first one with a matching glob, nil if there is none. What it points to is shared: not
// to be changed.
func (s *Set) Of(path string) *Convention {
	if len(s.matchers) == 0 {
		return nil
	}
	base := glob.Base(path)
	for i := range s.matchers {
		if m := &s.matchers[i]; m.glob.Match(path, base) {
			return m.convention
		}
	}
	return nil
}

// Record returns the convention of the claim file that is the directory of a path, and
// that directory: the path is one of the files of an OwnerDir. Else c is nil.
func (s *Set) Record(path string) (dir string, c *Convention) {
	if !s.ownerDirs {
		return "", nil
	}
	dir = naming.Dir(path)
	if c = s.Of(dir); c == nil || c.Format != OwnerDir {
		return "", nil
	}
	return dir, c
}
