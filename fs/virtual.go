package fs

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/fs/locksfs"
	"latchfs/fs/report"
	"latchfs/fs/selftest"
	"latchfs/lockmgr"
)

// virtualBase is where the node ids of the virtual tree begin; those of real
// nodes never get there.
const (
	virtualBase = uint64(1) << 62
	virtualRoot = virtualBase
)

func isVirtual(id uint64) bool { return id >= virtualBase }

// virtual puts the kernel's requests about .locks/ to package locksfs, and its answers
// into the kernel's words. Nothing in it is cached by the kernel.
type virtual struct {
	f     *FS
	files *locksfs.FS
}

func newVirtual(f *FS, tree *locksdir.Tree) *virtual {
	v := &virtual{f: f}
	v.files = locksfs.New(locksfs.Config{
		Root: virtualRoot, Tree: tree, Book: f.callers.book, Started: f.view.source.Started(), Converse: v.converse,
	})
	return v
}

// asker is who makes a request, who is looked up when somebody wants to know.
type asker struct {
	f     *FS
	h     Request // a copy, so that no request escapes to the heap for it
	found *caller // nil as long as nobody has asked
}

func (v *virtual) by(h *Request) *asker { return &asker{f: v.f, h: *h} }

// caller is the asker as others than locksfs know it.
func (a *asker) caller() *caller {
	if a.found == nil {
		a.found = a.f.callers.callerOf(&a.h)
	}
	return a.found
}

// UID implements locksfs.By.
func (a *asker) UID() uint32 { return a.h.UID }

// GID implements locksfs.By.
func (a *asker) GID() uint32 { return a.h.GID }

// Owner implements locksfs.By.
func (a *asker) Owner() lockmgr.Owner { return a.caller().Owner() }

// Viewer implements locksfs.By.
func (a *asker) Viewer() report.Viewer { return viewerOf(a.caller()) }

// viewerOf is who looks, with the lineage by which locksdir knows what is the viewer's own.
func viewerOf(c *caller) report.Viewer {
	w := report.Viewer{
		UID: c.UID(), GIDs: []uint32{c.GID()}, PID: c.Owner().PID,
		Privileged: seesEverything(c.UID()),
	}
	if c.Foreign() {
		return w
	}
	if !w.Privileged {
		groups, known := c.Groups()
		w.GIDs, w.AllGroups = append(w.GIDs, groups...), known
	}
	w.Lineage = append(w.Lineage, report.Process{PID: c.Owner().PID, Start: c.Owner().Start})
	for _, a := range c.Ancestors() {
		w.Lineage = append(w.Lineage, report.Process{PID: a.Owner.PID, Start: a.Owner.Start})
	}
	return w
}

// seesEverything reports whether a user is root or the mount's owner.
func seesEverything(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func virtualAttr(a *Attr, id uint64, e *locksdir.Entry) {
	*a = Attr{Ino: id, Size: uint64(e.Size), Mode: unix.S_IFREG | e.Mode, Nlink: 1, Blksize: 4096}
	if e.Dir {
		a.Mode, a.Nlink = unix.S_IFDIR|e.Mode, 2
	}
	a.Blocks = (a.Size + 511) / 512
	a.UID, a.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	if e.UID != 0 {
		a.UID = e.UID
	}
	if e.GID != 0 {
		a.GID = e.GID
	}
	at := unix.Timespec{Sec: e.Mtime.Unix(), Nsec: int64(e.Mtime.Nanosecond())}
	a.Atime, a.Mtime, a.Ctime = at, at, at
}

func (v *virtual) forget(id, nlookup uint64) { v.files.Forget(id, nlookup) }

func (v *virtual) lookup(h *Request, name string, out *Entry) unix.Errno {
	var id uint64
	var e locksdir.Entry
	var errno unix.Errno
	switch {
	case !isVirtual(h.Node):
		id, e, errno = v.files.LookupRoot(v.by(h))
	case h.Node == virtualRoot && name == selftest.Name:
		return v.lookupSelfTest(out)
	default:
		id, e, errno = v.files.Lookup(h.Node, name, v.by(h))
	}
	if errno != 0 {
		return errno
	}
	out.Node = id
	virtualAttr(&out.Attr, id, &e)
	return 0
}

func (v *virtual) getattr(in *AttrRequest, out *AttrReply) unix.Errno {
	switch in.Node {
	case selfTestNode:
		out.Attr = selfTestAttr()
		return 0
	case virtualRoot:
		v.f.selfTest.Getattr()
	}
	var e locksdir.Entry
	var errno unix.Errno
	if in.HasHandle {
		e, errno = v.files.StatHandle(in.Node, in.Handle, v.by(&in.Request))
	} else {
		e, errno = v.files.Stat(in.Node, v.by(&in.Request))
	}
	if errno != 0 {
		return errno
	}
	virtualAttr(&out.Attr, in.Node, &e)
	return 0
}

// isView reports whether what is read has to be put together first.
func (v *virtual) isView(in *ReadRequest) bool {
	return isVirtual(in.Node) && v.files.IsView(in.Handle)
}

func (v *virtual) open(in *OpenRequest, out *Opened) unix.Errno {
	if in.Node == selfTestNode {
		return v.openSelfTest(out)
	}
	fh, talks, e := v.files.Open(in.Node, in.Flags, v.by(&in.Request))
	if e != 0 {
		return e
	}
	*out = Opened{Handle: fh, Direct: true, NoFlush: !talks, Stream: talks}
	return 0
}

func (v *virtual) read(cancel <-chan struct{}, in *ReadRequest, buf []byte) (Data, unix.Errno) {
	buf = buf[:min(len(buf), int(in.Size))]
	n, e := v.files.Read(in.Handle, v.by(&in.Request), in.Flags&unix.O_NONBLOCK != 0, cancel, buf, int64(in.Offset))
	if e != 0 {
		return Data{}, e
	}
	return Data{Bytes: buf[:n]}, 0
}

func (v *virtual) write(in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	n, e := v.files.Write(in.Handle, v.by(&in.Request), data)
	return uint32(n), e
}

func (v *virtual) flush(in *FlushRequest) { v.files.Flush(in.Handle, v.by(&in.Request)) }

func (v *virtual) release(fh uint64) { v.files.Release(fh) }

func (v *virtual) unlink(h *Request, name string) unix.Errno {
	return v.files.Remove(h.Node, name, v.by(h))
}

func (v *virtual) openDir(in *OpenRequest, out *Opened) unix.Errno {
	fh, e := v.files.OpenDir(in.Node, v.by(&in.Request))
	out.Handle = fh
	return e
}

func (v *virtual) readDir(in *ReadRequest, out Listing) unix.Errno {
	return v.list(in, out)
}

func (v *virtual) readDirPlus(in *ReadRequest, out Listing) unix.Errno {
	return v.list(in, out)
}

func (v *virtual) list(in *ReadRequest, out Listing) unix.Errno {
	return v.files.List(in.Handle, in.Offset, func(e *locksdir.Entry, next uint64) bool {
		mode := uint32(unix.S_IFREG)
		if e.Dir {
			mode = unix.S_IFDIR
		}
		return out.Add(Listed{Name: e.Name, Mode: mode, Next: next})
	})
}
