package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The system calls of the simulated kernel on open files.

// simFile is an open file description.
type simFile struct {
	k     *simKernel
	inode *simInode
	fh    uint64
	flags uint32
	out   Opened
	refs  int // descriptors, and mappings of its pages

	backing int  // of the file behind, or -1: see startIOLocked
	cached  bool // it may have pages

	nameless bool // it was opened by no name (O_TMPFILE)

	pos     int64
	changed atomic.Bool // somebody has written to it
	path    string      // as it was opened
	txn     *simTxn     // in which it was opened; or nil

	nameMu sync.Mutex // guards now and moved, which whoever renames the file changes
	now    simName
	moved  bool // it may have lost the name under which it was opened

	// For the model.
	by            *simProc // who has opened it
	began, opened int64    // of the open
	closing       int64    // when the first close began
	handle        string
	version       string
	attrs         simAttrs  // set through it
	known         string    // the version that its writer has read
	bases         []string  // likewise, and those before, if what is written may be merged
	syncing       int64     // when the fsync of the whole version began; 0: there was none
	synced        bool      // it has returned
	syncedAt      time.Time // when it has; guarded by the model's mutex
	created       bool      // by its open
	refused       bool      // a close has failed
	killed        bool      // a process was killed that had it
	records       []simRecord
	lineBegan     time.Time // when the line was begun that is not finished; guarded by the model's mutex
}

// simName is a name in a directory; dir is nil if there is none.
type simName struct {
	dir  *simInode
	name string
}

// named is the name that the file has now.
func (f *simFile) named() simName {
	f.nameMu.Lock()
	defer f.nameMu.Unlock()
	return f.now
}

// gets notes which name the file has now, and whether it may be another one than it was opened by.
func (f *simFile) gets(name simName, moved bool) {
	f.nameMu.Lock()
	defer f.nameMu.Unlock()
	f.now, f.moved = name, moved
}

func (f *simFile) hasMoved() bool {
	f.nameMu.Lock()
	defer f.nameMu.Unlock()
	return f.moved
}

// simRecord is a record that was appended. It is in the file at once, or where another
// program is writing that, when the close returns at the latest.
type simRecord struct {
	version string
	began   int64
	failed  bool // the write has, and may have happened
}

func (f *simFile) writes() bool { return f.flags&unix.O_ACCMODE != unix.O_RDONLY }

func (k *simKernel) open(p *simProc, path string, flags uint32) (f *simFile, e unix.Errno) {
	e = again(func(reval bool) (e unix.Errno) {
		f, e = k.openOnce(p, path, flags, reval)
		return e
	})
	return f, e
}

func (k *simKernel) openOnce(p *simProc, path string, flags uint32, reval bool) (*simFile, unix.Errno) {
	dir, name, e := k.walk(p, path, reval)
	if e != 0 {
		return nil, e
	}
	var n *simInode
	if flags&unix.O_CREAT == 0 {
		n, e = k.lookup(p, dir, name, reval, false)
	} else {
		var f *simFile
		n, f, e = k.openOrCreate(p, dir, name, flags, reval)
		if f != nil {
			f.path = path
			f.created = !k.w.holds(path)
			return f, 0
		}
	}
	switch {
	case e != 0:
		return nil, e
	case n == nil:
		return nil, unix.ENOENT
	case n.isDir:
		return nil, unix.EISDIR
	}
	if e := k.getattr(p, n); e != 0 {
		return nil, e
	}
	f := &simFile{k: k, inode: n, flags: flags, refs: 1, path: path}
	e = k.request(p, fmt.Sprintf("OPEN %s (node %d)", name, n.id), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		return k.fs.Open(cancel, &OpenRequest{Request: h, Flags: flags &^ (unix.O_CREAT | unix.O_EXCL)}, &f.out)
	})
	if e != 0 {
		return nil, e
	}
	return k.opened(f)
}

// openOrCreate is an open with O_CREAT, under the directory's lock.
func (k *simKernel) openOrCreate(p *simProc, dir *simInode, name string, flags uint32, reval bool) (*simInode, *simFile, unix.Errno) {
	excl := flags&unix.O_EXCL != 0
	dir.lock.lock(true)
	defer dir.lock.unlock(true)
	n, e := k.lookup(p, dir, name, reval || excl, true)
	if e != 0 {
		return nil, nil, e
	}
	if n != nil {
		if excl {
			return nil, nil, unix.EEXIST
		}
		return n, nil, 0
	}
	if e := k.getattr(p, dir); e != 0 {
		return nil, nil, e
	}
	var out Created
	e = k.request(p, "CREATE "+name, func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = dir.id
		return k.fs.Create(cancel, &CreateRequest{OpenRequest: OpenRequest{Request: h, Flags: flags}, Mode: unix.S_IFREG | 0o644}, name, &out)
	})
	if e != 0 {
		return nil, nil, e
	}
	f := &simFile{k: k, inode: k.inodeOf(p, &out.Entry), flags: flags, refs: 1, out: out.Opened}
	k.mu.Lock()
	k.putLocked(dir, name, f.inode, out.NameTTL)
	dir.until = time.Time{}
	k.mu.Unlock()
	f, e = k.opened(f)
	return nil, f, e
}

// holds reports whether the data directory has something of that name. The kernel sends a
// CREATE also where somebody has made the file since it looked; the daemon then opens that
// one, and one that it makes itself gets its name when it is synced or closed.
func (w *simWorld) holds(path string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, path))
	return err == nil
}

// opened returns f if the kernel accepts how it was opened.
func (k *simKernel) opened(f *simFile) (*simFile, unix.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.fh, f.backing = f.out.Handle, -1
	if e := k.startIOLocked(f); e != 0 {
		go func() {
			k.w.failf("the kernel does not accept how %s was opened beside others", f.path)
			k.fs.Release(nil, &ReleaseRequest{Request: Request{Node: f.inode.id}, Handle: f.fh})
		}()
		return nil, e
	}
	f.inode.opens++
	if f.flags&unix.O_APPEND != 0 && f.out.Direct {
		f.inode.appended = k.w.now()
	}
	if !f.out.KeepCache && f.inode.dirty == nil {
		f.inode.page = nil
	}
	if f.flags&unix.O_TRUNC != 0 {
		f.inode.attr.Size, f.inode.page, f.inode.until = 0, nil, time.Time{}
	}
	return f, 0
}

// read reads up to size bytes at the file's position.
func (k *simKernel) read(p *simProc, f *simFile, size int) ([]byte, unix.Errno) {
	if f.passes() {
		return k.backingRead(p, f, size)
	}
	if f.out.Direct {
		b, e := k.askPages(p, f, f.pos, size)
		f.pos += int64(len(b))
		return b, e
	}
	if e := k.getattr(p, f.inode); e != 0 { // FUSE_AUTO_INVAL_DATA
		return nil, e
	}
	n := f.inode
	n.pageLock.lock(true)
	defer n.pageLock.unlock(true)
	k.mu.Lock()
	page, length, version := n.page, int64(n.attr.Size), n.version
	k.mu.Unlock()
	if page == nil {
		var e unix.Errno
		if page, e = k.askPages(p, f, 0, 4096); e != 0 {
			return nil, e
		}
		page = append([]byte{}, page...)
		k.mu.Lock()
		n.page = page
		if n.version == version && uint64(len(page)) < n.attr.Size {
			n.attr.Size = uint64(len(page)) // fuse_short_read in fs/fuse/file.c
		}
		length = int64(n.attr.Size) // filemap_read looks at the size when it has the pages
		k.mu.Unlock()
	}
	if f.began < n.appended {
		length = min(length, int64(len(page))) // it may find zeros: see handles.readsWhatGrows
	}
	whole := make([]byte, length) // what lies behind a short page reads as zeros
	copy(whole, page)
	b := whole[min(f.pos, length):min(f.pos+int64(size), length)]
	f.pos += int64(len(b))
	return b, 0
}

func (k *simKernel) askPages(p *simProc, f *simFile, off int64, size int) (b []byte, e unix.Errno) {
	e = k.request(p, fmt.Sprintf("READ %s at %d", f.path, off), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = f.inode.id
		buf := make([]byte, size)
		d, st := k.fs.Read(cancel, &ReadRequest{Request: h, Handle: f.fh, Offset: uint64(off), Size: uint32(size), Flags: f.flags}, buf)
		if st == 0 {
			b, st = d.read(buf)
		}
		return st
	})
	return b, e
}

// read is what the kernel gets of an answer.
func (d *Data) read(buf []byte) ([]byte, unix.Errno) {
	if d.Size == 0 {
		return d.Bytes, 0
	}
	n, err := unix.Pread(d.FD, buf[:d.Size], d.Off)
	return buf[:max(n, 0)], errnoOf(err)
}

// write writes at the file's position. The inode's lock is held.
func (k *simKernel) write(p *simProc, f *simFile, b []byte) unix.Errno {
	n := f.inode
	n.lock.lock(true)
	defer n.lock.unlock(true)
	if f.passes() {
		if e := k.backingWrite(p, f, b); e != 0 {
			return e
		}
		n.written(k, f, b)
		return 0
	}
	if f.flags&unix.O_APPEND != 0 { // generic_write_checks takes the size that it has
		k.mu.Lock()
		f.pos = int64(n.attr.Size)
		k.mu.Unlock()
	}
	e := k.request(p, fmt.Sprintf("WRITE %s at %d", f.path, f.pos), func(h Request, _ <-chan struct{}) unix.Errno {
		h.Node = n.id
		_, st := k.fs.Write(nil, &WriteRequest{Request: h, Handle: f.fh, Offset: uint64(f.pos), Flags: f.flags}, [][]byte{b})
		return st
	})
	if e != 0 {
		return e
	}
	n.written(k, f, b)
	return 0
}

// written is fuse_write_update_attr in fs/fuse/file.c.
func (n *simInode) written(k *simKernel, f *simFile, b []byte) {
	f.pos += int64(len(b))
	f.changed.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	n.page, n.until = nil, time.Time{}
	n.attr.Size = max(n.attr.Size, uint64(f.pos))
	n.version++
}

// close is the close of one descriptor, which the process does not have any more.
func (k *simKernel) close(p *simProc, f *simFile) unix.Errno {
	e := k.flush(p, f)
	k.drop(f)
	return e
}

// flush is what the filesystem hears of a close at once.
func (k *simKernel) flush(p *simProc, f *simFile) unix.Errno {
	if f.out.NoFlush {
		return 0
	}
	f.inode.lock.lock(true) // the pages are written back first
	k.writeBack(f.inode)
	f.inode.lock.unlock(true)
	return k.requestTo(p, "FLUSH "+f.path, true, func(h Request, _ <-chan struct{}) unix.Errno {
		h.Node = f.inode.id
		return k.fs.Flush(nil, &FlushRequest{Request: h, Handle: f.fh, LockOwner: uint64(p.pid)})
	})
}

// drop ends the use of an open file by a descriptor, or by a mapping. It reports whether that was
// the last one.
func (k *simKernel) drop(f *simFile) (last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.refs--
	if f.refs == 0 {
		k.endIOLocked(f)
	}
	if f.refs == 0 && !k.isDead() {
		k.releases++
		go k.release(f)
	}
	return f.refs == 0
}

// release sends RELEASE, some time after the last close, on nobody's behalf.
func (k *simKernel) release(f *simFile) {
	k.d.park("the kernel is about to send RELEASE " + f.path)
	if k.isDead() {
		return
	}
	k.fs.Release(nil, &ReleaseRequest{Request: Request{Node: f.inode.id}, Handle: f.fh})
	k.w.tracef("      RELEASE %s", f.path)
	k.w.model.released()
	k.mu.Lock()
	defer k.mu.Unlock()
	f.inode.opens--
	k.releases--
}
