package fs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Shared mappings in the simulated kernel: fs/fuse/file.c and fs/backing-file.c of the kernel's
// source. What is stored into one goes to the pages of the file, which the kernel writes back
// on nobody's behalf: at the latest when a descriptor is closed, or the mapping ends. With
// passthrough a mapping is one of the backing file, and keeps nothing of the FUSE file: its
// RELEASE may come before the last store.

// simMapping is a shared mapping of a process, which may write.
type simMapping struct {
	f  *simFile
	fd int // of the backing file; -1: the pages are those of the FUSE file
}

// drawMappings adds commands that store into mappings. It comes from random numbers of its own,
// as in drawLocks.
func (s *simScript) drawMappings(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 15))
	if r.IntN(6) > 0 {
		return
	}
	for range 1 + r.IntN(3) {
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		line := []string{"map ", "keepmap "}[r.IntN(2)] + names[r.IntN(len(names))]
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), line)
	}
}

// mmap maps an open file.
func (k *simKernel) mmap(f *simFile) (*simMapping, unix.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := &simMapping{f, -1}
	if f.backing >= 0 {
		fd, err := k.w.keeps.open(func() (int, error) { return unix.FcntlInt(uintptr(f.backing), unix.F_DUPFD_CLOEXEC, 0) })
		m.fd = fd
		return m, errnoOf(err)
	}
	if f.out.Direct && !f.cached { // fuse_file_cached_io_open
		f.cached = true
		f.inode.cached++
	}
	f.refs++
	return m, 0
}

// store stores bytes within the file.
func (k *simKernel) store(p *simProc, m *simMapping, off int, b string) unix.Errno {
	if m.fd >= 0 {
		_, err := unix.Pwrite(m.fd, []byte(b), int64(off))
		return errnoOf(err)
	}
	n := m.f.inode
	n.pageLock.lock(true)
	defer n.pageLock.unlock(true)
	k.mu.Lock()
	page := n.page
	k.mu.Unlock()
	if page == nil {
		var e unix.Errno
		if page, e = k.askPages(p, m.f, 0, 4096); e != 0 {
			return e
		}
	}
	page = slices.Clone(page)
	if off+len(b) > len(page) {
		return unix.EIO // SIGBUS
	}
	copy(page[off:], b)
	k.mu.Lock()
	defer k.mu.Unlock()
	n.page, n.dirty = page, m.f
	return 0
}

// writeBack sends the pages that were stored into.
func (k *simKernel) writeBack(n *simInode) {
	n.pageLock.lock(true)
	defer n.pageLock.unlock(true)
	k.writeBackPages(n)
}

// writeBackPages is writeBack for whoever has the pages' lock.
func (k *simKernel) writeBackPages(n *simInode) {
	k.mu.Lock()
	f, page := n.dirty, n.page
	n.dirty = nil
	k.mu.Unlock()
	if f == nil {
		return
	}
	k.d.park("the kernel is about to write back " + f.path)
	if k.isDead() {
		return
	}
	_, e := k.fs.Write(nil, &WriteRequest{Request: Request{Node: n.id}, Handle: f.fh, Flags: f.flags, Cached: true}, [][]byte{page})
	k.w.tracef("      WRITE of pages of %s: %v", f.path, e)
}

// munmap ends a mapping.
func (k *simKernel) munmap(m *simMapping) {
	if m.fd >= 0 {
		k.w.keeps.close(m.fd)
		return
	}
	k.writeBack(m.f.inode) // fuse_vma_close
	k.drop(m.f)
}

// maps are the mappings of the process.
func (p *simProc) mappings() []*simMapping {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	return slices.Clone(p.maps)
}

// mmap maps the file behind a descriptor.
func (p *simProc) mmap(fd int) (*simMapping, unix.Errno) {
	f := p.fds[fd]
	p.enter(unix.SYS_MMAP, "map "+f.path)
	m, e := f.k.mmap(f)
	if e == 0 {
		p.w.procs.mu.Lock()
		p.maps = append(p.maps, m)
		p.w.procs.mu.Unlock()
	}
	p.w.logf("%s maps %s: %s", p, f.path, result(e))
	p.leave()
	return m, e
}

// munmap ends one of its mappings.
func (p *simProc) munmap(m *simMapping) {
	m.f.k.munmap(m)
	p.w.procs.mu.Lock()
	p.maps = slices.DeleteFunc(p.maps, func(x *simMapping) bool { return x == m })
	p.steady = false
	p.w.procs.mu.Unlock()
	p.w.logf("%s ends its mapping of %s", p, m.f.path)
}

// store stores into a mapping.
func (p *simProc) store(m *simMapping, off int, b string) unix.Errno {
	p.w.park(fmt.Sprintf("%s is about to store %s at %d", p, m.f.path, off))
	p.leaveIfKilled()
	e := m.f.k.store(p, m, off, b)
	p.w.logf("%s stores %q at %d of %s: %s", p, b, off, m.f.path, result(e))
	p.leaveIfKilled()
	return e
}

// storeMapped opens a file, reads it, makes it as long as the next version, and stores that into
// a mapping. early: it closes its descriptor before that. Of a program that is killed then nobody
// can tell whether it has finished, so it is not: see docs/operations.md.
func (p *simProc) storeMapped(path string, early bool) {
	fd, f, text, ok := p.openToReplace(path)
	if !ok {
		return
	}
	v, _ := versionOf(text)
	known := p.knows(f.k, v)
	v = p.w.model.newVersion(p)
	parts := versionText(v)
	if p.ftruncate(fd, int64(len(strings.Join(parts, "")))) != 0 {
		p.close(fd)
		return
	}
	m, e := p.mmap(fd)
	if e != 0 {
		f.version, f.known = v, known
		p.fill(fd, f)
		return
	}
	if early {
		p.w.procs.mu.Lock()
		p.steady = p.signal == 0
		p.w.procs.mu.Unlock()
		p.leaveIfKilled()
		p.close(fd)
	}
	off := 0
	for _, part := range parts {
		if e = p.store(m, off, part); e != 0 {
			p.kill() // by SIGBUS
			p.leaveIfKilled()
		}
		off += len(part)
	}
	p.stored[v] = true
	p.w.model.mapped(p, f, simOp{kind: "write", path: path, handle: f.handle, version: v, known: known})
	if !early {
		p.close(fd)
	}
	p.munmap(m)
	p.leaveIfKilled()
}

// mapped notes that all of a version is in a mapping. No call says whether it becomes the file,
// and until when: RELEASE and the end of a mapping have no answer.
func (m *simModel) mapped(p *simProc, f *simFile, o simOp) {
	if f.k.isDead() {
		return
	}
	o.killed = true
	m.count("stored into a mapping")
	m.note(p, o, m.w.now(), math.MaxInt64)
}

// What is stored into a mapping becomes the file when the mapping ends, whether its program has
// closed its descriptor before or after the stores; a reader sees nothing of it before.
func TestMappedWrites(t *testing.T) {
	for _, line := range []string{"map a", "keepmap a"} {
		for passes := range 2 {
			o := simOptions{seed: 1, script: simScript{hazards: simHazards{passes: passes}, programs: []simProgram{
				simProgramOf("ann", line), simProgramOf("bob", "cat a"), simProgramOf("cyn", "cat a"), simProgramOf("dan", "cat a")}},
				turns: []string{"ann until store a at 0", "bob to the end", "ann until store a at 11", "the kernel to the end", "6s pass", "cyn to the end",
					"ann to the end", "the kernel to the end", "ann to the end", "the kernel to the end", "6s pass", "dan to the end"}}
			w := inTurnsOf(t, o)
			got := strings.Join(w.lines, "\n")
			for who, want := range map[string]string{"bob[2]": "old1", "cyn[3]": "old1", "dan[4]": "ann1"} {
				if !strings.Contains(got, who+` reads a: "<`+want+".") {
					t.Errorf("%s, passes %d: %s does not read %s", line, passes, who, want)
				}
			}
		}
	}
}
