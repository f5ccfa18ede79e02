package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The system calls of the simulated kernel that change attributes, and link(2).

// setattr sends SETATTR under the lock of the inode, which may be open as f.
func (k *simKernel) setattr(p *simProc, n *simInode, f *simFile, in SetAttrRequest) unix.Errno {
	n.lock.lock(true)
	defer n.lock.unlock(true)
	if f != nil {
		in.Set |= SetHandle
		in.Handle = f.fh
	}
	var out AttrReply
	e := k.request(p, fmt.Sprintf("SETATTR of node %d", n.id), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		in.Request = h
		return k.fs.SetAttr(cancel, &in, &out)
	})
	if e != 0 {
		return e
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n.attr, n.until = out.Attr, seen(out.TTL)
	if in.Set&SetSize != 0 {
		n.page = nil
	}
	return 0
}

// fileAt is the file that a path leads to, where it is; ifDir is the answer if that is a
// directory.
func (k *simKernel) fileAt(p *simProc, path string, reval bool, ifDir unix.Errno) (dir *simInode, name string, n *simInode, e unix.Errno) {
	if dir, name, e = k.walk(p, path, reval); e != 0 {
		return nil, "", nil, e
	}
	n, e = k.lookup(p, dir, name, reval, false)
	switch {
	case e != 0:
	case n == nil:
		e = unix.ENOENT
	case n.isDir:
		e = ifDir
	}
	return dir, name, n, e
}

// setattrPath is truncate(2), or chmod(2).
func (k *simKernel) setattrPath(p *simProc, path string, in SetAttrRequest) unix.Errno {
	return again(func(reval bool) unix.Errno {
		dir, name, n, e := k.fileAt(p, path, reval, unix.EISDIR)
		if e != 0 {
			return e
		}
		if e := k.getattr(p, n); e != 0 {
			return e
		}
		e = k.setattr(p, n, nil, in)
		if e == 0 && in.Set&SetSize != 0 {
			k.w.model.changes(p, simName{dir, name}, "has truncated")
		}
		return e
	})
}

func sizeAttr(size int64) SetAttrRequest {
	return SetAttrRequest{Set: SetSize, Size: uint64(size)}
}

func modeAttr(mode uint32) SetAttrRequest {
	return SetAttrRequest{Set: SetMode, Mode: mode}
}

// simFind is the time in which a system call on two names has found what the first leads to.
type simFind struct{ began, ended int64 }

// link is link(2), which looks its two names up one after the other. It returns when it has
// found the file, if it has.
func (k *simKernel) link(p *simProc, from, to string) (found simFind, e unix.Errno) {
	e = again(func(reval bool) unix.Errno {
		found = simFind{began: k.w.now()}
		_, _, n, e := k.fileAt(p, from, reval, unix.EPERM)
		if e != 0 {
			return e
		}
		found.ended = k.w.now()
		if !p.isInTxn() { // where there is no link(2)
			n.linked.Store(true)
		}
		return k.linkInode(p, n, to, reval)
	})
	return found, e
}

// linkInode gives an inode a name, a further one if it is linked already.
func (k *simKernel) linkInode(p *simProc, n *simInode, to string, reval bool) unix.Errno {
	b, name, e := k.walk(p, to, reval)
	if e != 0 {
		return e
	}
	b.lock.lock(true)
	defer b.lock.unlock(true)
	target, e := k.lookup(p, b, name, true, true)
	switch {
	case e != 0:
		return e
	case target != nil:
		return unix.EEXIST
	}
	if e := k.getattr(p, b); e != 0 {
		return e
	}
	n.lock.lock(true)
	defer n.lock.unlock(true)
	var out Entry
	e = k.request(p, "LINK "+name, func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = b.id
		return k.fs.Link(cancel, &LinkRequest{Request: h, Target: n.id}, name, &out)
	})
	if e != 0 {
		return e
	}
	made := k.inodeOf(p, &out)
	k.mu.Lock()
	defer k.mu.Unlock()
	made.linked.Store(made.linked.Load() || n.linked.Load())
	k.putLocked(b, name, made, out.NameTTL)
	b.until, n.until = time.Time{}, time.Time{}
	return 0
}

// The commands that use them.

func (p *simProc) truncate(path string) {
	p.enter(unix.SYS_TRUNCATE, "truncate "+path, path)
	began := p.w.now()
	e := p.kernel.setattrPath(p, path, sizeAttr(0))
	p.w.logf("%s truncates %s to nothing: %s", p, path, result(e))
	p.w.model.did(p, simOp{kind: "truncate", path: path, errno: p.refusedAs(e, began)}, began)
	p.leave()
}

func (p *simProc) ftruncate(fd int, size int64) unix.Errno {
	f := p.fds[fd]
	p.enter(unix.SYS_FTRUNCATE, "ftruncate "+f.path)
	e := f.k.setattr(p, f.inode, f, sizeAttr(size))
	p.w.logf("%s truncates the open %s to %d bytes: %s", p, f.path, size, result(e))
	p.leave()
	return e
}

func (p *simProc) chmod(path string) {
	p.enter(unix.SYS_CHMOD, "chmod "+path, path)
	began := p.w.now()
	e := p.kernel.setattrPath(p, path, modeAttr(0o640))
	p.w.logf("%s changes the mode of %s: %s", p, path, result(e))
	p.w.model.did(p, simOp{kind: "attribute", path: path, attrs: simAttrs{simMode: "640"}, errno: e}, began)
	p.leave()
}

func (p *simProc) ln(from, to string) {
	p.enter(unix.SYS_LINK, fmt.Sprintf("link %s to %s", from, to), from, to)
	if p.txn != nil && !p.isInTxn() { // its daemon has died: the link is not for the next one
		p.leave()
		return
	}
	began, handle := p.w.now(), p.w.model.newHandle()
	found, e := p.kernel.link(p, from, to)
	p.w.logf("%s gives %s the further name %s: %s", p, from, to, result(e))
	if found.ended != 0 && found.ended == p.kernel.until(found.ended) { // else the daemon was dead by then, and nothing came of it
		p.w.model.note(p, simOp{kind: "find", path: from, handle: handle, killed: e != 0}, found.began, found.ended)
		began = found.ended
	}
	p.w.model.did(p, simOp{kind: "link", path: from, to: to, handle: handle, errno: e}, began)
	p.leave()
}

// unchanged is the version that a session makes which writes nothing.
const unchanged = "unchanged"

// openToReplace opens a file to read and write, and reads it, a whole version. If that fails, it
// is closed.
func (p *simProc) openToReplace(path string) (fd int, f *simFile, text string, ok bool) {
	fd, f, e := p.open(path, unix.O_RDWR)
	if e != 0 {
		return -1, nil, "", false
	}
	f.version = unchanged
	text, e = p.readAll(fd)
	p.w.model.read(p, f, text, e)
	if _, whole := versionOf(text); e != 0 || !whole {
		p.close(fd)
		return -1, nil, "", false
	}
	return fd, f, text, true
}

// bump reads a file and writes it anew through one descriptor, which shows at each moment
// what it has written, and behind that the rest as it was. Before it writes, it gives the file
// the further name also, if there is one.
func (p *simProc) bump(path, also string) {
	fd, f, text, ok := p.openToReplace(path)
	if !ok {
		return
	}
	if also != "" {
		p.ln(path, also)
	}
	v, _ := versionOf(text)
	f.known, f.pos = v, 0 // lseek(2) does not come to the filesystem
	f.version = p.w.model.newVersion(p)
	written, e := "", unix.Errno(0)
	for _, part := range versionText(f.version) {
		if e = p.write(fd, part); e != 0 {
			if written == "" {
				f.version = unchanged
			}
			break
		}
		written += part
		p.readBack(fd, written+text[min(len(written), len(text)):])
	}
	if e == 0 && len(text) > int(f.pos) {
		p.ftruncate(fd, f.pos)
	}
	p.close(fd)
}

// readBack checks what a descriptor shows its writer, whose file is nobody else's yet.
func (p *simProc) readBack(fd int, want string) {
	f := p.fds[fd]
	pos := f.pos
	f.pos = 0
	text, e := p.readAll(fd)
	f.pos = pos
	if e == 0 && text != want {
		p.w.failf("%s reads back %q, not %q", p, text, want)
	}
}

// cut opens a file to write it, cuts it through the descriptor, and writes it anew.
func (p *simProc) cut(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT)
	if e != 0 {
		return
	}
	f.version = unchanged
	if p.ftruncate(fd, 0) != 0 {
		p.close(fd)
		return
	}
	p.fill(fd, f)
}

// log appends two records, each at once or in parts.
func (p *simProc) log(path string, parts bool) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND)
	if e != 0 {
		return
	}
	for range 2 {
		v := p.w.model.newVersion(p)
		f.records = append(f.records, simRecord{version: v, began: p.w.now()})
		switch e := p.append(fd, recordText(v), parts); e {
		case 0:
		case unix.EBADMSG:
			p.w.model.refusedRecords(p, f, p.w.now())
			f.records = f.records[:len(f.records)-1]
		case unix.ENOTCONN, unix.EIO, unix.ENOSPC:
			for i := range f.records { // an error of the ones before may be told only now
				f.records[i].failed = true
			}
		default:
			f.records = f.records[:len(f.records)-1]
		}
	}
	p.close(fd)
}
