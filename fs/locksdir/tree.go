package locksdir

import "syscall"

// Tree renders the virtual directory.
type Tree struct {
	src Source
}

// New returns the tree that shows src.
func New(src Source) *Tree { return &Tree{src: src} }

// Stat describes the entry at path; "" is the root.
func (t *Tree) Stat(path string, v Viewer) (Entry, error) { return Entry{}, syscall.ENOENT }

// List describes the entries of the directory at path, sorted by name.
func (t *Tree) List(path string, v Viewer) ([]Entry, error) { return nil, syscall.ENOENT }

// Open returns the content of the file at path.
func (t *Tree) Open(path string, v Viewer) (Content, error) { return nil, syscall.ENOENT }

// Remove releases the lock whose record is at path.
func (t *Tree) Remove(path string, v Viewer) error { return syscall.ENOENT }

// Trim drops what was cached and has grown old.
func (t *Tree) Trim() {}
