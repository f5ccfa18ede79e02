package fs

import (
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
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
		Root: virtualRoot, Tree: tree, Book: f.book, Started: f.source.Started(), Converse: v.converse,
	})
	return v
}

// asker is who makes a request, who is looked up when somebody wants to know.
type asker struct {
	f     *FS
	h     fuse.InHeader // a copy, so that no request escapes to the heap for it
	found *caller       // nil as long as nobody has asked
}

func (v *virtual) by(h *fuse.InHeader) *asker { return &asker{f: v.f, h: *h} }

// caller is the asker as others than locksfs know it.
func (a *asker) caller() *caller {
	if a.found == nil {
		a.found = a.f.callerOf(&a.h)
	}
	return a.found
}

// UID implements locksfs.By.
func (a *asker) UID() uint32 { return a.h.Uid }

// GID implements locksfs.By.
func (a *asker) GID() uint32 { return a.h.Gid }

// Owner implements locksfs.By.
func (a *asker) Owner() lockmgr.Owner { return a.caller().owner }

// Viewer implements locksfs.By.
func (a *asker) Viewer() report.Viewer { return viewerOf(a.caller()) }

// viewerOf is who looks, with the lineage by which locksdir knows what is the viewer's own.
func viewerOf(c *caller) report.Viewer {
	w := report.Viewer{
		UID: c.uid, GIDs: []uint32{c.gid}, PID: c.owner.PID,
		Privileged: seesEverything(c.uid),
	}
	if c.foreign() {
		return w
	}
	if !w.Privileged {
		w.GIDs, w.AllGroups = append(w.GIDs, c.supplementary()...), c.groupsKnown
	}
	w.Lineage = append(w.Lineage, report.Process{PID: c.owner.PID, Start: c.owner.Start})
	for _, a := range c.ancestors() {
		w.Lineage = append(w.Lineage, report.Process{PID: a.Owner.PID, Start: a.Owner.Start})
	}
	return w
}

// seesEverything reports whether a user is root or the mount's owner.
func seesEverything(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func virtualAttr(a *fuse.Attr, id uint64, e *locksdir.Entry) {
	*a = fuse.Attr{Ino: id, Size: uint64(e.Size), Mode: unix.S_IFREG | e.Mode, Nlink: 1, Blksize: 4096}
	if e.Dir {
		a.Mode, a.Nlink = unix.S_IFDIR|e.Mode, 2
	}
	a.Blocks = (a.Size + 511) / 512
	a.Uid, a.Gid = uint32(os.Geteuid()), uint32(os.Getegid())
	if e.UID != 0 {
		a.Uid = e.UID
	}
	if e.GID != 0 {
		a.Gid = e.GID
	}
	sec, nsec := uint64(e.Mtime.Unix()), uint32(e.Mtime.Nanosecond())
	a.Atime, a.Mtime, a.Ctime = sec, sec, sec
	a.Atimensec, a.Mtimensec, a.Ctimensec = nsec, nsec, nsec
}

func (v *virtual) forget(id, nlookup uint64) { v.files.Forget(id, nlookup) }

func (v *virtual) lookup(h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	var id uint64
	var e locksdir.Entry
	var errno unix.Errno
	switch {
	case !isVirtual(h.NodeId):
		id, e, errno = v.files.LookupRoot(v.by(h))
	case h.NodeId == virtualRoot && name == selftest.Name:
		return v.lookupSelfTest(out)
	default:
		id, e, errno = v.files.Lookup(h.NodeId, name, v.by(h))
	}
	if errno != 0 {
		return status(errno)
	}
	out.NodeId, out.Generation = id, 1
	virtualAttr(&out.Attr, id, &e)
	return fuse.OK
}

func (v *virtual) getattr(in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	switch in.NodeId {
	case selfTestNode:
		out.Attr = selfTestAttr()
		return fuse.OK
	case virtualRoot:
		v.f.selfTest.Getattr()
	}
	var e locksdir.Entry
	var errno unix.Errno
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		e, errno = v.files.StatHandle(in.NodeId, in.Fh(), v.by(&in.InHeader))
	} else {
		e, errno = v.files.Stat(in.NodeId, v.by(&in.InHeader))
	}
	if errno != 0 {
		return status(errno)
	}
	virtualAttr(&out.Attr, in.NodeId, &e)
	return fuse.OK
}

// isView reports whether what is read has to be put together first.
func (v *virtual) isView(in *fuse.ReadIn) bool { return isVirtual(in.NodeId) && v.files.IsView(in.Fh) }

func (v *virtual) open(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.NodeId == selfTestNode {
		return v.openSelfTest(out)
	}
	fh, talks, e := v.files.Open(in.NodeId, in.Flags, v.by(&in.InHeader))
	if e != 0 {
		return status(e)
	}
	out.Fh, out.OpenFlags = fh, fuse.FOPEN_DIRECT_IO|fuse.FOPEN_NOFLUSH
	if talks {
		out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_STREAM
	}
	return fuse.OK
}

func (v *virtual) read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	buf = buf[:min(len(buf), int(in.Size))]
	n, e := v.files.Read(in.Fh, v.by(&in.InHeader), in.Flags&unix.O_NONBLOCK != 0, cancel, buf, int64(in.Offset))
	if e != 0 {
		return nil, status(e)
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

func (v *virtual) write(in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	n, e := v.files.Write(in.Fh, v.by(&in.InHeader), data)
	return uint32(n), status(e)
}

func (v *virtual) flush(in *fuse.FlushIn) { v.files.Flush(in.Fh, v.by(&in.InHeader)) }

func (v *virtual) release(fh uint64) { v.files.Release(fh) }

func (v *virtual) unlink(h *fuse.InHeader, name string) fuse.Status {
	return status(v.files.Remove(h.NodeId, name, v.by(h)))
}

func (v *virtual) openDir(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	fh, e := v.files.OpenDir(in.NodeId, v.by(&in.InHeader))
	out.Fh = fh
	return status(e)
}

func (v *virtual) readDir(in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return v.list(in, func(e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

func (v *virtual) readDirPlus(in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return v.list(in, func(e fuse.DirEntry) bool { return out.AddDirLookupEntry(e) != nil })
}

func (v *virtual) list(in *fuse.ReadIn, add func(fuse.DirEntry) bool) fuse.Status {
	return status(v.files.List(in.Fh, in.Offset, func(e *locksdir.Entry, next uint64) bool {
		mode := uint32(unix.S_IFREG)
		if e.Dir {
			mode = unix.S_IFDIR
		}
		return add(fuse.DirEntry{Name: e.Name, Mode: mode, Off: next})
	}))
}
