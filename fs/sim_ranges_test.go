package fs

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"
)

// Programs that write files otherwise than by write(2): copy_file_range(2) and fallocate(2), and look
// at them by lseek(2) and statx(2).

// drawRanges adds commands that do so, as drawLocks does.
func (s *simScript) drawRanges(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 36))
	if r.IntN(4) != 0 {
		return
	}
	for range 1 + r.IntN(3) {
		i := r.IntN(len(names))
		line := []string{"alloc", "alloc", "statx"}[r.IntN(3)] + " " + names[i]
		if len(names) > 1 && !s.links() && !s.stagesNames() && r.IntN(2) == 0 {
			line = "copy " + names[i] + " " + names[(i+1+r.IntN(len(names)-1))%len(names)]
		}
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), line)
	}
}

// fallocate is fuse_file_fallocate in fs/fuse/file.c.
func (k *simKernel) fallocate(p *simProc, f *simFile, mode uint32, off, length int64) unix.Errno {
	n := f.inode
	n.lock.lock(true)
	defer n.lock.unlock(true)
	e := k.request(p, fmt.Sprintf("FALLOCATE %s, mode %d, %d bytes at %d", f.path, mode, length, off), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		return k.fs.Fallocate(cancel, &AllocRequest{Request: h, Handle: f.fh, Offset: uint64(off), Length: uint64(length), Mode: mode})
	})
	if e != 0 {
		return e
	}
	f.changed.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	n.page = nil
	n.until = seen(-1)
	n.version++
	if mode&unix.FALLOC_FL_KEEP_SIZE == 0 {
		n.attr.Size = max(n.attr.Size, uint64(off+length))
	}
	return 0
}

// copyRange is __fuse_copy_file_range, which copies from the beginning of a file to that of another.
func (k *simKernel) copyRange(p *simProc, from, to *simFile, length int) (copied int, e unix.Errno) {
	from.inode.lock.lock(true)
	k.writeBack(from.inode)
	from.inode.lock.unlock(true)
	n := to.inode
	n.lock.lock(true)
	defer n.lock.unlock(true)
	e = k.request(p, fmt.Sprintf("COPY_FILE_RANGE %s to %s", from.path, to.path), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = from.inode.id
		size, st := k.fs.CopyFileRange(cancel, &CopyRequest{Request: h, Handle: from.fh, To: n.id, ToHandle: to.fh, Length: uint64(length)})
		copied = int(size)
		return st
	})
	if e == 0 {
		n.written(k, to, make([]byte, copied))
	}
	return copied, e
}

// seek is fuse_lseek: SEEK_DATA, or SEEK_HOLE.
func (k *simKernel) seek(p *simProc, f *simFile, whence uint32) (at int64, e unix.Errno) {
	e = k.request(p, "LSEEK "+f.path, func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = f.inode.id
		off, st := k.fs.Lseek(cancel, &SeekRequest{Request: h, Handle: f.fh, Whence: whence})
		at = int64(off)
		return st
	})
	return at, e
}

// The commands.

// copyTo reads a file, and copies it over another one.
func (p *simProc) copyTo(from, to string) {
	if p.w.disk != nil { // where the power fails versions have to differ, for the model
		p.alloc(to)
		return
	}
	fd, f, e := p.open(from, unix.O_RDONLY)
	if e != 0 {
		return
	}
	text, e := p.readAll(fd)
	p.w.model.read(p, f, text, e)
	v, whole := versionOf(text)
	if e != 0 || !whole {
		p.close(fd)
		return
	}
	other, g, e := p.open(to, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	if e == 0 && (g.k != f.k || g.inode == f.inode) { // the daemon has died, or a rename has made them one
		p.fill(other, g)
	} else if e == 0 {
		p.copyInto(other, g, f, v, text)
	}
	p.close(fd)
}

// copyInto copies a version over the file g, which is open to write as fd.
func (p *simProc) copyInto(fd int, g, f *simFile, v, text string) {
	g.version = v
	p.enter(unix.SYS_COPY_FILE_RANGE, "copy_file_range "+g.path)
	n, e := g.k.copyRange(p, f, g, len(text)+100)
	p.w.logf("%s copies %d bytes of %s to %s: %s", p, n, f.path, g.path, result(e))
	p.leave()
	if e == 0 && !p.w.opts.script.appends() && !p.w.model.hasLive() {
		p.readBack(fd, text)
	} else if e == 0 { // of a file that may have grown since
		g.pos = 0
		text, e := p.readAll(fd)
		if g.version, _ = versionOf(text); e != 0 {
			g.version = v
		}
	}
	p.close(fd)
}

// alloc writes a file anew in room that it has asked for before.
func (p *simProc) alloc(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	length := int64(len(wholeText(f.version)))
	for _, mode := range []uint32{0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_KEEP_SIZE | unix.FALLOC_FL_PUNCH_HOLE} {
		p.enter(unix.SYS_FALLOCATE, "fallocate "+path)
		e := f.k.fallocate(p, f, mode, 0, length)
		p.w.logf("%s asks for %d bytes in %s, mode %d: %s", p, length, path, mode, result(e))
		p.leave()
	}
	e = p.writeVersion(fd, f.version)
	for _, whence := range []uint32{unix.SEEK_DATA, unix.SEEK_HOLE} {
		if e != 0 {
			break
		}
		var at int64
		p.enter(unix.SYS_LSEEK, "lseek "+path)
		at, e = f.k.seek(p, f, whence)
		p.w.logf("%s looks for %s in %s: %d, %s", p, map[uint32]string{unix.SEEK_DATA: "data", unix.SEEK_HOLE: "a hole"}[whence], path, at, result(e))
		if want := map[uint32]int64{unix.SEEK_DATA: 0, unix.SEEK_HOLE: length}[whence]; e == 0 && at != want && !f.isRobbed() && !f.k.isDead() && !p.w.model.hasLive() {
			p.w.failf("%s finds data, or the end of them, at %d of %s, which it has written from 0 to %d", p, at, path, length)
		}
		p.leave()
	}
	p.close(fd)
}

// statx asks for the attributes of a file by statx(2).
func (p *simProc) statx(path string) {
	p.enter(unix.SYS_STATX, "statx "+path, "cwd", path)
	began := p.w.now()
	var out StatxReply
	e := p.kernel.onPath(p, path, func(n *simInode) unix.Errno {
		return p.kernel.request(p, fmt.Sprintf("STATX of node %d", n.id), func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = n.id
			return p.kernel.fs.Statx(cancel, &StatxRequest{Request: h, Mask: unix.STATX_BASIC_STATS}, &out)
		})
	})
	p.w.logf("%s asks for all attributes of %s: %s, %d bytes", p, path, result(e), out.Size)
	o := simOp{kind: "stat", path: path, errno: e}
	if e == 0 {
		o.attrs = modeSeen(uint32(out.Mode))
	}
	p.w.model.did(p, o, began)
	p.leave()
}
