package advisory

import (
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
)

// Key is the lock table's name for the locks of a class on the inode that is open.
func (r *Room) Key(f File, class lockmgr.Class) lockmgr.Key {
	is := f.Standing()
	if class == lockmgr.Flock {
		if path, ok := r.standsFor(&is); ok {
			return r.keyOf(path)
		}
	}
	if is.InSession {
		return r.nameKey(is.Path, class)
	}
	if is.Unnamed || !is.Regular {
		return f.InodeKey()
	}
	if k, live := f.LiveKey(is.Path); live {
		return k
	}
	if is.Linked {
		return f.InodeKey()
	}
	return r.nameKey(is.Path, class)
}

// nameKey is the key of a name. Ranges of bytes are of the file alone.
func (r *Room) nameKey(path string, class lockmgr.Class) lockmgr.Key {
	if class == lockmgr.Flock {
		return lockmgr.Key(r.c.Policy.LockName(path))
	}
	return lockmgr.Key(path)
}

// keyOf is the key of a file for which a flock stands (requirement C4), whether or not it
// exists.
func (r *Room) keyOf(path string) lockmgr.Key {
	if k, ok := r.c.Engine.KeyAt(path); ok {
		return k
	}
	return r.nameKey(path, lockmgr.Flock)
}

// standsFor is the path of the file for which a flock stands; false of one that stands for
// itself.
func (r *Room) standsFor(is *Standing) (path string, ok bool) {
	if !r.c.Policy.HasClaimFiles() || is.Unnamed {
		return "", false
	}
	rule := r.c.Policy.ClaimFile(is.Path)
	if rule == nil || rule.Format != lockfile.Flock {
		return "", false
	}
	t, err := rule.Target(is.Path)
	return t.Path, err == nil
}
