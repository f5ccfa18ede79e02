package fs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/locksdir"
	"latchfs/fs/report"
	"latchfs/fs/selftest"
	"latchfs/fs/vnodes"
	"latchfs/lockmgr"
)

// virtualBase is where the node ids of the virtual tree begin; those of real
// nodes never get there.
const (
	virtualBase = uint64(1) << 62
	virtualRoot = virtualBase
)

// trimViews is how often renderings that nobody looks at any more are dropped.
const trimViews = 5 * time.Second

func isVirtual(id uint64) bool { return id >= virtualBase }

// virtual serves .locks/: package locksdir renders it, this gives its files
// nodes and handles. Nothing in it is cached by the kernel.
type virtual struct {
	f    *FS
	tree *locksdir.Tree
	ids  *vnodes.Table[*vhandle]
}

type vhandle struct {
	node    uint64 // what it is open on, and by whom
	uid     uint32
	opener  lockmgr.Owner
	content locksdir.Content
	list    []locksdir.Entry
	talk    *ctl.Conversation
	charged int64 // to the user, for what is kept here
}

func newVirtual(f *FS, tree *locksdir.Tree) *virtual {
	return &virtual{f: f, tree: tree, ids: vnodes.New[*vhandle](virtualRoot)}
}

func (v *virtual) forget(id, nlookup uint64) { v.ids.Forget(id, nlookup) }

// viewer is who looks, with the lineage by which locksdir knows what is the
// viewer's own.
func (v *virtual) viewer(h *fuse.InHeader) report.Viewer { return v.viewerOf(v.f.callerOf(h)) }

func (v *virtual) viewerOf(c *caller) report.Viewer {
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

func virtualErrno(err error) unix.Errno {
	if errors.Is(err, iofs.ErrNotExist) {
		return unix.ENOENT
	}
	return errnoOf(err)
}

func (v *virtual) attr(a *fuse.Attr, id uint64, e *locksdir.Entry) {
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

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func (v *virtual) lookup(h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	path := ""
	if isVirtual(h.NodeId) {
		dir, ok := v.ids.Path(h.NodeId)
		if !ok {
			return status(unix.ESTALE)
		}
		path = join(dir, name)
	}
	if path == selftest.Name {
		return v.lookupSelfTest(out)
	}
	e, err := v.stat(path, h)
	if err != nil {
		return status(virtualErrno(err))
	}
	id := v.ids.Lookup(path)
	out.NodeId, out.Generation = id, 1
	v.attr(&out.Attr, id, &e)
	return fuse.OK
}

// controlEntry is what ls shows of the control file: anybody may ask for a lock.
func (v *virtual) controlEntry() locksdir.Entry {
	return locksdir.Entry{Name: controlName, Mode: 0o666, Mtime: v.f.source.Started()}
}

func (v *virtual) stat(path string, h *fuse.InHeader) (locksdir.Entry, error) {
	if path == controlName {
		return v.controlEntry(), nil
	}
	return v.tree.Stat(path, v.viewer(h))
}

func (v *virtual) getattr(in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.NodeId == selfTestNode {
		out.Attr = selfTestAttr()
		return fuse.OK
	}
	path, ok := v.ids.Path(in.NodeId)
	if !ok {
		return status(unix.ESTALE)
	}
	if path == "" {
		v.f.selfTest.Getattr()
	}
	if locksdir.Grows(path) {
		if h := v.openBy(&in.InHeader); h != nil {
			e := v.tree.StatOpen(path, h.content)
			v.attr(&out.Attr, in.NodeId, &e)
			return fuse.OK
		}
	}
	e, err := v.stat(path, &in.InHeader)
	if err != nil {
		return status(virtualErrno(err))
	}
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		if h := v.ids.Handle(in.Fh()); h != nil && h.content != nil {
			e.Size = h.content.Size()
		}
	}
	v.attr(&out.Attr, in.NodeId, &e)
	return fuse.OK
}

// openBy is what the sender of a request has the node open as, nil if it has not: what
// fstat(2) asks for comes without a handle.
func (v *virtual) openBy(h *fuse.InHeader) *vhandle {
	c := v.f.callerOf(h)
	return v.ids.Last(func(o *vhandle) bool {
		return o.node == h.NodeId && o.uid == h.Uid && o.opener == c.owner && o.content != nil
	})
}

// isView reports whether what is read has to be put together first. A reply on the
// control file is there, or is waited for.
func (v *virtual) isView(in *fuse.ReadIn) bool {
	if !isVirtual(in.NodeId) {
		return false
	}
	h := v.ids.Handle(in.Fh)
	return h != nil && h.content != nil
}

func (v *virtual) open(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.NodeId == selfTestNode {
		return v.openSelfTest(out)
	}
	path, ok := v.ids.Path(in.NodeId)
	if !ok {
		return status(unix.ESTALE)
	}
	if path == controlName {
		return v.openControl(in, out)
	}
	if in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0 {
		return fuse.EACCES
	}
	by := v.f.callerOf(&in.InHeader)
	c, err := v.tree.Open(path, v.viewerOf(by))
	if err != nil {
		return status(virtualErrno(err))
	}
	cost := locksdir.Kept(c)
	if !v.f.book.Take(by.uid, cost) {
		c.Close()
		return status(unix.ENOMEM)
	}
	out.Fh = v.ids.Open(&vhandle{node: in.NodeId, uid: by.uid, opener: by.owner, content: c, charged: cost})
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	return fuse.OK
}

func (v *virtual) read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	h := v.ids.Handle(in.Fh)
	if h != nil && h.talk != nil {
		return v.readControl(h.talk, cancel, in, buf)
	}
	if h == nil || h.content == nil {
		return nil, fuse.EBADF
	}
	n, err := h.content.ReadAt(buf[:min(len(buf), int(in.Size))], int64(in.Offset))
	if err != nil && err != io.EOF {
		return nil, status(virtualErrno(err))
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

func (v *virtual) write(in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	h := v.ids.Handle(in.Fh)
	if h == nil || h.talk == nil {
		return 0, fuse.EPERM
	}
	return v.writeControl(h.talk, in, data)
}

func (v *virtual) flush(in *fuse.FlushIn) {
	if h := v.ids.Handle(in.Fh); h != nil && h.talk != nil {
		h.talk.Flush(v.f.callerOf(&in.InHeader))
	}
}

func (v *virtual) release(fh uint64) {
	h := v.ids.Close(fh)
	if h != nil {
		v.f.book.Give(h.uid, h.charged)
	}
	switch {
	case h == nil:
	case h.content != nil:
		h.content.Close()
	case h.talk != nil:
		h.talk.Close()
	}
}

func (v *virtual) unlink(h *fuse.InHeader, name string) fuse.Status {
	dir, ok := v.ids.Path(h.NodeId)
	if !ok {
		return status(unix.ESTALE)
	}
	return status(virtualErrno(v.tree.Remove(join(dir, name), v.viewer(h))))
}
