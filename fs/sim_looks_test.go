package fs

import (
	"encoding/json"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
)

// Programs that look at .locks and at directories, and that write earlier versions anew, as
// `latchfs restore` does.

// drawLooks adds commands that look to a script, as drawLocks does.
func (s *simScript) drawLooks(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 34))
	if r.IntN(5) != 0 {
		return
	}
	for range 3 + r.IntN(5) {
		i := r.IntN(len(s.programs))
		name := names[r.IntN(len(names))]
		line := []string{
			"look status", "look status.json", "look why", "look events.jsonl", "look history.jsonl", "look top.json", "look metrics", "look policy", "look README",
			"look held/" + name + ".lock", "look waiting/" + name, "list .", "list d", "list e", "list .locks", "list .locks/held", "list .locks/rejected",
			"list .locks/history/" + name, "watch " + name, "watch " + name, "restore " + name, "restore " + name, "aside",
		}[r.IntN(23)]
		if s.programs[i].name == simGuest && (strings.HasPrefix(line, "watch") || strings.HasPrefix(line, "restore")) {
			line = "look why"
		}
		p := &s.programs[i]
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), line)
	}
}

// simListing is what the kernel gets of a directory.
type simListing struct{ names []string }

// Add implements Listing.
func (l *simListing) Add(d Listed) bool {
	l.names = append(l.names, d.Name)
	return true
}

// Describe implements Listing. The kernel has no use for the reference.
func (l *simListing) Describe(*Entry) {}

// list reads a directory.
func (k *simKernel) list(p *simProc, at string) (names []string, e unix.Errno) {
	e = again(func(reval bool) unix.Errno {
		n := k.root
		if at != "." {
			dir, name, e := k.walk(p, at, reval)
			if e != 0 {
				return e
			}
			switch n, e = k.lookup(p, dir, name, reval, false); {
			case e != 0:
				return e
			case n == nil:
				return unix.ENOENT
			case !n.isDir:
				return unix.ENOTDIR
			}
		}
		var out Opened
		e := k.request(p, "OPENDIR "+at, func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = n.id
			return k.fs.OpenDir(cancel, &OpenRequest{Request: h}, &out)
		})
		if e != 0 {
			return e
		}
		var got simListing
		e = k.request(p, "READDIR "+at, func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = n.id
			return k.fs.ReadDir(cancel, &ReadRequest{Request: h, Handle: out.Handle, Size: 1 << 16}, &got)
		})
		if !k.isDead() {
			k.fs.ReleaseDir(&ReleaseRequest{Request: Request{Node: n.id}, Handle: out.Handle})
		}
		names = got.names
		return e
	})
	return names, e
}

// The commands.

// looking lets the daemon not stop on the way: who looks at .locks waits for mutexes that the
// bubble does not see.
func (p *simProc) looking() (stop func()) {
	p.w.lookers.Add(1)
	return func() { p.w.lookers.Add(-1) }
}

// ls lists a directory. It shows nothing that the daemon has for itself.
func (p *simProc) ls(at string) (names []string) {
	defer p.looking()()
	p.enter(unix.SYS_GETDENTS64, "list "+at, "cwd", at)
	began := p.w.now()
	names, e := p.kernel.list(p, at)
	p.w.logf("%s lists %s: %s, %v", p, at, result(e), names)
	p.mayLook(at, e, began)
	for _, name := range names {
		if strings.HasPrefix(name, commit.ReservedPrefix) || name == commit.StateDirName || at == "." && name == ".locks" {
			p.w.failf("%s finds %s in %s", p, name, at)
		}
	}
	p.leave()
	return names
}

// mayLook reports how a look at something may end.
func (p *simProc) mayLook(at string, e unix.Errno, began int64) {
	p.w.model.count("look " + unix.ErrnoName(e))
	if e != 0 && e != unix.ENOENT && e != unix.ENOTDIR && e != unix.ENOTCONN && !(e == unix.EINTR && p.isKilled()) && !p.w.model.mayFail(e, began) {
		p.w.failf("%s: a look at %s must not fail with %s", p, at, result(e))
	}
}

// look reads a file below .locks.
func (p *simProc) look(file string) (text string, e unix.Errno) {
	defer p.looking()()
	at := ".locks/" + file
	p.enter(unix.SYS_OPENAT, "look at "+file, "cwd", at)
	began := p.w.now()
	f, e := p.kernel.open(p, at, unix.O_RDONLY)
	if e == 0 {
		f.version = unchanged
		fd := p.install(f)
		var b []byte
		for part := []byte{0}; e == 0 && len(part) > 0; b = append(b, part...) {
			part, e = f.k.read(p, f, 1<<16)
		}
		text = string(b)
		p.w.procs.mu.Lock()
		delete(p.fds, fd)
		p.w.procs.mu.Unlock()
		f.k.close(p, f)
	}
	p.w.logf("%s looks at %s: %s, %d bytes", p, file, result(e), len(text))
	p.mayLook(at, e, began)
	if e == 0 && !simShape(file, text) {
		p.w.failf("%s finds in %s %q", p, file, text)
	}
	p.leave()
	return text, e
}

// simShape reports whether a file below .locks may hold a text.
func simShape(file, text string) bool {
	switch path.Ext(file) {
	case ".json", ".lock":
		return json.Valid([]byte(text))
	case ".jsonl":
		return simLines(text)
	}
	return path.Dir(file) != "." || text != "" || file == "why"
}

// watch opens a file to write it anew, and looks before the close at who has it.
func (p *simProc) watch(file string) {
	fd, f, e := p.open(file, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	text, e := p.look("held/" + file + ".lock")
	var held struct {
		PID int32 `json:"pid"`
	}
	switch {
	case p.txn != nil || f.k != p.kernel || f.k.isDead() || !f.k.has(f, file) || f.isRobbed() || p.w.model.hasLive() || p.isKilled():
	case e == unix.ENOENT:
		p.w.failf("%s has %s open to write, and .locks does not show it", p, file)
	case e == 0 && (json.Unmarshal([]byte(text), &held) != nil || held.PID != p.pid):
		p.w.failf("%s has %s open to write, and .locks shows %q", p, file, text)
	}
	p.fill(fd, f)
}

// restore reads the first earlier version of a file that is kept, which is whole, and writes it
// anew. Where the power fails versions have to differ, for the model.
func (p *simProc) restore(file string) {
	for _, n := range p.ls(".locks/history/" + file) {
		text, e := p.look("history/" + file + "/" + n)
		if e != 0 {
			continue
		}
		v, whole := versionOf(text)
		if !whole && p.w.model.mayTear() {
			return
		}
		if !whole {
			p.w.failf("%s finds %q in the history of %s", p, text, file)
		} else if p.w.disk == nil {
			p.w.model.count("an earlier version is written anew")
			p.echoAs(file, "", v)
		}
		return
	}
}

// aside looks at all refused bytes that are kept: of each there is a record, which says of which file
// they are, and what it names can be read.
func (p *simProc) aside() {
	for _, id := range p.ls(".locks/rejected") {
		if id == "." || id == ".." {
			continue
		}
		files := p.ls(".locks/rejected/" + id)
		text, e := p.look("rejected/" + id + "/meta.json")
		if e != 0 {
			continue
		}
		var meta struct {
			Path   string `json:"path"`
			Reason string `json:"reason"`
		}
		if json.Unmarshal([]byte(text), &meta) != nil || meta.Path == "" || meta.Reason == "" {
			p.w.failf("%s finds of refused bytes %q", p, text)
		}
		for _, name := range files {
			if name != "meta.json" && !strings.HasPrefix(name, ".") {
				p.look("rejected/" + id + "/" + name)
			}
		}
		p.w.model.count("refused bytes are looked at")
	}
}
