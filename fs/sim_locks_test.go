package fs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The locks that programs take by themselves, with flock(2) and fcntl(2), and fsync(2).

// simHeld is a lock that a program has, from the return of the call that took it to the
// beginning of the call that gives it back, or closes the file.
type simHeld struct {
	p     *simProc
	f     *simFile
	kind  simLockKind
	since int64
}

// simLockKind says how a program locks a file.
type simLockKind struct {
	posix bool // with fcntl(2): the lock is the process's, not the open file's
	alone bool
	tries bool // does not wait
}

func (l simLockKind) String() string {
	how, with := "to share it", "flock"
	if l.alone {
		how = "for itself alone"
	}
	if l.posix {
		with = "fcntl"
	}
	if l.tries {
		how += ", without waiting"
	}
	return how + " (" + with + ")"
}

// setlk sends the request of flock(2) or fcntl(2).
func (k *simKernel) setlk(p *simProc, f *simFile, kind simLockKind, typ uint32) unix.Errno {
	in := k.lkIn(p, f, kind, typ)
	what, do := "SETLKW ", k.fs.SetLkw
	if kind.tries || typ == unix.F_UNLCK {
		what, do = "SETLK ", k.fs.SetLk
	}
	return k.request(p, what+f.path, func(h Request, cancel <-chan struct{}) unix.Errno {
		in.Request, in.Node = h, f.inode.id
		return do(cancel, &in)
	})
}

// getlk sends the request of F_GETLK, which answers who is in the way.
func (k *simKernel) getlk(p *simProc, f *simFile) (holder uint32, e unix.Errno) {
	in := k.lkIn(p, f, simLockKind{posix: true}, unix.F_WRLCK)
	var out FileLock
	e = k.request(p, "GETLK "+f.path, func(h Request, cancel <-chan struct{}) unix.Errno {
		in.Request, in.Node = h, f.inode.id
		out, e = k.fs.GetLk(cancel, &in)
		return e
	})
	if e != 0 || out.Type == unix.F_UNLCK {
		return 0, e
	}
	return out.PID, 0
}

func (k *simKernel) lkIn(p *simProc, f *simFile, kind simLockKind, typ uint32) LockRequest {
	in := LockRequest{Handle: f.fh, Owner: uint64(p.pid), Lock: FileLock{End: math.MaxInt64, Type: typ, PID: uint32(p.pid)}}
	if !kind.posix {
		in.Owner, in.Flock = f.fh<<32, true
	}
	return in
}

// fsync is fsync(2), under the lock of the inode.
func (k *simKernel) fsync(p *simProc, f *simFile) unix.Errno {
	f.inode.lock.lock(true)
	defer f.inode.lock.unlock(true)
	return k.request(p, "FSYNC "+f.path, func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = f.inode.id
		return k.fs.Fsync(cancel, &FsyncRequest{Request: h, Handle: f.fh})
	})
}

// lock locks an open file and reports whether it has the lock.
func (p *simProc) lock(fd int, kind simLockKind) bool {
	f, nr, typ := p.fds[fd], unix.SYS_FLOCK, uint32(unix.F_RDLCK)
	if kind.posix {
		nr = unix.SYS_FCNTL
	}
	if kind.alone {
		typ = unix.F_WRLCK
	}
	p.enter(nr, fmt.Sprintf("lock %s %s", f.path, kind))
	e := f.k.setlk(p, f, kind, typ)
	p.w.logf("%s locks %s %s: %s", p, f.path, kind, result(e))
	p.w.model.locked(p, f, kind, e)
	p.leave()
	return e == 0
}

// unlock gives a lock back before the close does.
func (p *simProc) unlock(fd int, kind simLockKind) {
	f, nr := p.fds[fd], unix.SYS_FLOCK
	if kind.posix {
		nr = unix.SYS_FCNTL
	}
	p.enter(nr, "unlock "+f.path)
	p.w.model.unlocks(f)
	e := f.k.setlk(p, f, kind, unix.F_UNLCK)
	p.w.logf("%s unlocks %s: %s", p, f.path, result(e))
	if e != 0 && !p.isKilled() && !f.k.isDead() {
		p.w.failf("%s: an unlock must not fail with %s", p, result(e))
	}
	p.leave()
}

// The commands that use them.

// lockAndCount reads a file and writes it anew while it has it locked for itself alone.
// Nobody else writes the file meanwhile, so that it is not refused, unless what it reads does
// not count.
func (p *simProc) lockAndCount(path string, tries bool) {
	fd, f, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		return
	}
	kind := simLockKind{alone: true, tries: tries}
	if !p.lock(fd, kind) {
		p.close(fd)
		return
	}
	had, deaf := f.k.has(f, path), p.isDeaf(path)
	if v, ok := p.cat(path); ok {
		e := p.echo(path, path, v)
		if e == unix.EBUSY && had && !deaf && f.k.has(f, path) {
			p.w.failf("%s was refused a write of %s, which it has locked", p, path)
		}
	}
	p.close(fd)
}

// lockAndRead reads a file twice while it shares a lock of it.
func (p *simProc) lockAndRead(path string, kind simLockKind) {
	fd, f, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		return
	}
	if !p.lock(fd, kind) {
		p.close(fd)
		return
	}
	had := f.k.has(f, path)
	if kind.posix { // to close another descriptor of the file would end the lock
		p.readAll(fd)
		p.unlock(fd, kind)
		p.close(fd)
		return
	}
	v, ok := p.cat(path)
	again, still := p.cat(path)
	if ok && still && v != again && had && f.k.has(f, path) && p.uid == p.w.uid {
		p.w.failf("%s read %s and then %s from %s, which it has locked", p, v, again, path)
	}
	p.close(fd)
}

func (p *simProc) askLock(path string) {
	fd, f, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		return
	}
	p.enter(unix.SYS_FCNTL, "ask who has locked "+f.path)
	pid, e := f.k.getlk(p, f)
	who := "nobody"
	if q := p.w.procs.get(int32(pid)); q != nil {
		who = q.String()
	}
	p.w.logf("%s asks who has %s locked: %s, %s", p, path, result(e), who)
	p.leave()
	p.close(fd)
}

// sync writes a version in three writes and syncs it before it closes the file.
func (p *simProc) sync(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	if p.writeVersion(fd, f.version) != 0 {
		p.close(fd)
		return
	}
	p.enter(unix.SYS_FSYNC, "fsync "+f.path)
	f.syncing = p.w.now()
	e = f.k.fsync(p, f)
	if f.synced = e == 0; f.synced {
		p.w.model.acknowledged(f)
	}
	p.w.logf("%s syncs %s: %s", p, f.path, result(e))
	if e != 0 && !p.isKilled() && !f.k.isDead() && !p.w.model.mayFail(e, f.began) && (e != unix.ESTALE || !f.isRobbed()) {
		p.w.failf("%s: fsync must not fail with %s", p, result(e))
	}
	p.leave()
	p.close(fd)
}

// What programs may expect of locks.

// mayFail reports whether a lock may fail like that.
func (l simLockKind) mayFail(e unix.Errno) bool {
	return e == unix.EDEADLK || e == unix.EAGAIN && l.tries
}

// locked notes a lock, which must keep with those that others have.
func (m *simModel) locked(p *simProc, f *simFile, kind simLockKind, e unix.Errno) {
	at := m.w.now()
	m.mu.Lock()
	m.done["lock "+unix.ErrnoName(e)]++
	m.mu.Unlock()
	if e != 0 {
		if !kind.mayFail(e) && !(e == unix.EINTR && p.isKilled()) && e != unix.ENOTCONN && !m.mayFail(e, f.began) {
			m.w.failf("%s: a lock must not fail with %s", p, result(e))
		}
		return
	}
	if f.isNamed() {
		for _, o := range m.locksOn(f.named()) {
			if o.f != f && o.kind.posix == kind.posix && (o.kind.alone || kind.alone) && !related(o.p, p) {
				m.w.failf("%s has locked %s %s, and %s %s", o.p, f.path, o.kind, p, kind)
			}
		}
		for _, q := range m.w.procs.living() {
			if q != p && !related(p, q) && p.uid == m.w.uid && !m.hasLive() && slices.ContainsFunc(q.sessions(), func(o *simFile) bool { return o.named() == f.named() }) {
				m.w.failf("%s has locked %s %s, and %s has it open for writing", p, f.path, kind, q)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = append(m.held, &simHeld{p, f, kind, at})
}

// isNamed reports whether the file has its name for certain, and no other.
func (f *simFile) isNamed() bool { return f.named().dir != nil && !f.inode.linked.Load() }

// has reports whether the path leads to the open file for certain. A file that was open
// when its name was taken away, or renamed, is locked under another name, or none.
func (k *simKernel) has(f *simFile, path string) bool {
	if !f.isNamed() || k.isDead() {
		return false
	}
	name, ok := k.nameAt(path)
	return ok && f.named() == name
}

// nameAt is the name that a path is, as far as the kernel knows without asking.
func (k *simKernel) nameAt(path string) (name simName, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := k.root
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		d := dir.children[part]
		if d == nil || d.inode == nil {
			return simName{}, false
		}
		dir = d.inode
	}
	return simName{dir, parts[len(parts)-1]}, true
}

// wasRefused notes that the process was refused a rename away from a name: what it reads there
// in the next two seconds is not what it is going to write (DESIGN §6).
func (p *simProc) wasRefused(path string) {
	if name, ok := p.kernel.nameAt(path); ok {
		p.deaf[name] = time.Now()
	}
}

// isDeaf reports whether what the process reads of a path now does not count.
func (p *simProc) isDeaf(path string) bool {
	name, ok := p.w.kernel.nameAt(path)
	at, was := p.deaf[name]
	return ok && was && time.Since(at) < 2*time.Second
}

// isSession reports whether what is written through the file is a new version.
func (f *simFile) isSession() bool {
	return f.writes() && f.flags&unix.O_APPEND == 0 && !f.nameless && !f.isRobbed()
}

// sessions are the files that a process has open to write, so that nobody else may write them.
func (p *simProc) sessions() []*simFile {
	return slices.DeleteFunc(p.files(), func(f *simFile) bool { return !f.isSession() || p.isGiven(f) })
}

// files are what a process has open.
func (p *simProc) files() (all []*simFile) {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	for _, f := range p.fds {
		all = append(all, f)
	}
	for _, m := range p.maps {
		if !slices.Contains(all, m.f) {
			all = append(all, m.f)
		}
	}
	return all
}

// unlocks notes that the locks of an open file are about to end.
func (m *simModel) unlocks(f *simFile) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = slices.DeleteFunc(m.held, func(h *simHeld) bool { return h.f == f })
}

// closesLock notes that a descriptor is about to be closed, with which the locks end that nobody
// has inherited. What one takes with fcntl(2) nobody does.
func (m *simModel) closesLock(f *simFile) {
	inherited := m.w.inherited(f)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = slices.DeleteFunc(m.held, func(h *simHeld) bool { return h.f == f && (h.kind.posix || !inherited) })
}

// locksOn are the locks that programs have on a name now.
func (m *simModel) locksOn(name simName) (all []*simHeld) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.held {
		if h.f.isNamed() && h.f.named() == name {
			all = append(all, h)
		}
	}
	return all
}

// changes looks for a lock against what a process has done to a name. The lock of a
// program that may not write the file binds nobody but those who lock.
func (m *simModel) changes(p *simProc, name simName, what string) {
	m.keepsClaims(p, name, what)
	for _, h := range m.locksOn(name) {
		if h.p != p && !related(h.p, p) && h.p.uid == m.w.uid && h.since < p.called {
			m.w.failf("%s has locked %s %s, and %s %s it", h.p, h.f.path, h.kind, p, what)
		}
	}
}

// drawLocks adds commands to a script that lock and sync. They come from random numbers
// of their own: what the other seeds do stays as it is.
func (s *simScript) drawLocks(seed uint64, name func(*rand.Rand) string) {
	r := rand.New(rand.NewPCG(seed, 4))
	if r.IntN(3) != 0 {
		return
	}
	for range 1 + r.IntN(3) {
		p := &s.programs[r.IntN(len(s.programs))]
		command := []string{"lock", "lock", "trylock", "hold", "rdlock", "asklock", "sync", "sync"}[r.IntN(8)]
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), command+" "+name(r))
	}
	if r.IntN(3) == 0 {
		guest := simProgram{name: simGuest}
		for range 1 + r.IntN(2) {
			guest.lines = append(guest.lines, []string{"hold", "rdlock", "cat"}[r.IntN(3)]+" "+name(r))
		}
		s.programs = append(s.programs, guest)
	}
}

// simGuest is the program of another user, who may read the files.
const simGuest = "gus"

const guestUID = 65534
