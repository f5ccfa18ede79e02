package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
)

func (v *virtual) openDir(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	path, ok := v.ids.Path(in.NodeId)
	if !ok {
		return status(unix.ESTALE)
	}
	list, err := v.tree.List(path, v.viewer(&in.InHeader))
	if err != nil {
		return status(virtualErrno(err))
	}
	dots := []locksdir.Entry{{Name: ".", Dir: true}, {Name: "..", Dir: true}}
	if path == "" {
		dots = append(dots, v.controlEntry())
	}
	cost := int64(0)
	for i := range list {
		cost += virtualEntryCost + int64(len(list[i].Name))
	}
	if !v.f.book.Take(in.Uid, cost) {
		return status(unix.ENOMEM)
	}
	out.Fh = v.ids.Open(&vhandle{uid: in.Uid, list: append(dots, list...), charged: cost})
	return fuse.OK
}

func (v *virtual) readDir(in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return v.list(in, func(e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

func (v *virtual) readDirPlus(in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return v.list(in, func(e fuse.DirEntry) bool { return out.AddDirLookupEntry(e) != nil })
}

func (v *virtual) list(in *fuse.ReadIn, add func(fuse.DirEntry) bool) fuse.Status {
	h := v.ids.Handle(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	for i := int(in.Offset); i < len(h.list); i++ {
		mode := uint32(unix.S_IFREG)
		if h.list[i].Dir {
			mode = unix.S_IFDIR
		}
		if !add(fuse.DirEntry{Name: h.list[i].Name, Mode: mode, Off: uint64(i + 1)}) {
			break
		}
	}
	return fuse.OK
}

// trim drops what was rendered and is too old to be shown again, until the mount is gone.
func (v *virtual) trim() {
	t := time.NewTicker(trimViews)
	defer t.Stop()
	for {
		select {
		case <-v.f.done:
			return
		case <-t.C:
			v.tree.Trim()
		}
	}
}
