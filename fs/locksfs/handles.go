package locksfs

import (
	"io"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
)

// entryCost is what an entry of a listing costs beside its name.
const entryCost = 96

// Open opens a file, with the flags of open(2). talks says that it is the control file,
// whose replies have no offsets.
func (f *FS) Open(id uint64, flags uint32, by By) (fh uint64, talks bool, errno unix.Errno) {
	path, ok := f.ids.Path(id)
	if !ok {
		return 0, false, unix.ESTALE
	}
	if path == Control {
		talk, e := f.c.Converse(id, by)
		if e != 0 {
			return 0, false, e
		}
		return f.ids.Open(&handle{talk: talk}), true, 0
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0 {
		return 0, false, unix.EACCES
	}
	c, err := f.c.Tree.Open(path, by.Viewer())
	if err != nil {
		return 0, false, errnoOf(err)
	}
	cost := locksdir.Kept(c)
	if !f.c.Book.Take(by.UID(), cost) {
		c.Close()
		return 0, false, unix.ENOMEM
	}
	return f.ids.Open(&handle{node: id, uid: by.UID(), opener: by.Owner(), content: c, charged: cost}), false, 0
}

// IsView reports whether what is read by a handle has to be put together first. A reply on
// the control file is there, or is waited for.
func (f *FS) IsView(fh uint64) bool {
	h := f.ids.Handle(fh)
	return h != nil && h.content != nil
}

// Read reads from what is open at an offset, or waits for a conversation's next reply.
func (f *FS) Read(fh uint64, by By, nonblock bool, cancel <-chan struct{}, buf []byte, off int64) (int, unix.Errno) {
	h := f.ids.Handle(fh)
	switch {
	case h != nil && h.talk != nil:
		if !h.talk.IsOpeners(by.UID(), by.GID()) {
			return 0, unix.EPERM
		}
		return h.talk.Read(by, nonblock, cancel, buf)
	case h == nil || h.content == nil:
		return 0, unix.EBADF
	}
	n, err := h.content.ReadAt(buf, off)
	if err != nil && err != io.EOF {
		return 0, errnoOf(err)
	}
	return n, 0
}

// Write hands requests to a conversation. Nothing else can be written.
func (f *FS) Write(fh uint64, by By, data [][]byte) (int, unix.Errno) {
	h := f.ids.Handle(fh)
	if h == nil || h.talk == nil || !h.talk.IsOpeners(by.UID(), by.GID()) {
		return 0, unix.EPERM
	}
	return h.talk.Write(by, data)
}

// Flush is told that somebody closes a descriptor.
func (f *FS) Flush(fh uint64, by By) {
	if h := f.ids.Handle(fh); h != nil && h.talk != nil {
		h.talk.Flush(by)
	}
}

// Release closes a handle.
func (f *FS) Release(fh uint64) {
	h := f.ids.Close(fh)
	if h != nil {
		f.c.Book.Give(h.uid, h.charged)
	}
	switch {
	case h == nil:
	case h.content != nil:
		h.content.Close()
	case h.talk != nil:
		h.talk.Close()
	}
}

// OpenDir opens a directory.
func (f *FS) OpenDir(id uint64, by By) (fh uint64, errno unix.Errno) {
	path, ok := f.ids.Path(id)
	if !ok {
		return 0, unix.ESTALE
	}
	list, err := f.c.Tree.List(path, by.Viewer())
	if err != nil {
		return 0, errnoOf(err)
	}
	all := []locksdir.Entry{{Name: ".", Dir: true}, {Name: "..", Dir: true}}
	if path == "" {
		all = append(all, f.controlEntry())
	}
	cost := int64(0)
	for i := range list {
		cost += entryCost + int64(len(list[i].Name))
	}
	if !f.c.Book.Take(by.UID(), cost) {
		return 0, unix.ENOMEM
	}
	return f.ids.Open(&handle{uid: by.UID(), list: append(all, list...), charged: cost}), 0
}

// List gives the entries of a directory that is open from an offset on, each with the
// offset of the next one, until add has no room for one.
func (f *FS) List(fh, off uint64, add func(e *locksdir.Entry, next uint64) bool) unix.Errno {
	h := f.ids.Handle(fh)
	if h == nil {
		return unix.EBADF
	}
	for i := int(off); i < len(h.list); i++ {
		if !add(&h.list[i], uint64(i+1)) {
			break
		}
	}
	return 0
}
