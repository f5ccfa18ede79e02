package locksfs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
)

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// LookupRoot is Lookup of the root itself.
func (f *FS) LookupRoot(by By) (id uint64, e locksdir.Entry, errno unix.Errno) {
	return f.lookup("", by)
}

// Lookup is the node of a name in a directory, which the kernel remembers until it tells
// Forget.
func (f *FS) Lookup(dir uint64, name string, by By) (id uint64, e locksdir.Entry, errno unix.Errno) {
	path, ok := f.ids.Path(dir)
	if !ok {
		return 0, e, unix.ESTALE
	}
	return f.lookup(join(path, name), by)
}

func (f *FS) lookup(path string, by By) (id uint64, e locksdir.Entry, errno unix.Errno) {
	e, err := f.stat(path, by)
	if err != nil {
		return 0, e, errnoOf(err)
	}
	return f.ids.Lookup(path), e, 0
}

// Forget takes lookups of a node back.
func (f *FS) Forget(id, nlookup uint64) { f.ids.Forget(id, nlookup) }

func (f *FS) controlEntry() locksdir.Entry {
	return locksdir.Entry{Name: Control, Mode: controlMode, Mtime: f.c.Started}
}

func (f *FS) stat(path string, by By) (locksdir.Entry, error) {
	if path == Control {
		return f.controlEntry(), nil
	}
	return f.c.Tree.Stat(path, by.Viewer())
}

// Stat describes a node.
func (f *FS) Stat(id uint64, by By) (locksdir.Entry, unix.Errno) {
	return f.statOpen(id, nil, by)
}

// StatHandle describes the node that a handle has open.
func (f *FS) StatHandle(id, fh uint64, by By) (locksdir.Entry, unix.Errno) {
	return f.statOpen(id, f.ids.Handle(fh), by)
}

// statOpen describes a node that h, which may be nil, has open.
func (f *FS) statOpen(id uint64, h *handle, by By) (locksdir.Entry, unix.Errno) {
	path, ok := f.ids.Path(id)
	if !ok {
		return locksdir.Entry{}, unix.ESTALE
	}
	if locksdir.Grows(path) {
		if own := f.openBy(id, by); own != nil {
			return f.c.Tree.StatOpen(path, own.content), 0
		}
	}
	e, err := f.stat(path, by)
	if err != nil {
		return e, errnoOf(err)
	}
	if h != nil && h.content != nil {
		e.Size = h.content.Size()
	}
	return e, 0
}

// openBy is what the sender of a request has the node open as, nil if it has not: what
// fstat(2) asks for comes without a handle.
func (f *FS) openBy(id uint64, by By) *handle {
	owner, uid := by.Owner(), by.UID()
	return f.ids.Last(func(o *handle) bool {
		return o.node == id && o.uid == uid && o.opener == owner && o.content != nil
	})
}

// Remove releases the lock whose record a name in a directory is.
func (f *FS) Remove(dir uint64, name string, by By) unix.Errno {
	path, ok := f.ids.Path(dir)
	if !ok {
		return unix.ESTALE
	}
	return errnoOf(f.c.Tree.Remove(join(path, name), by.Viewer()))
}
