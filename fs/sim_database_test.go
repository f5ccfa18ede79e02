package fs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Databases: files that are live, so that what is written to them is in them at once, and that many
// programs have open to write. Each counts in its page of the file under a lock of fcntl(2), so that
// nobody loses what another one has counted. One file is a database by its name, the other becomes
// one by the first lock of a part of it (DESIGN §4.5). The model of names leaves them out.

// simDatabases are the files.
var simDatabases = []string{"base.db", "base.bin"}

func isDatabase(path string) bool {
	return slices.ContainsFunc(simDatabases, func(n string) bool { return strings.HasPrefix(path, n) })
}

// simPage is how long the number is that a database has.
const simPage = 16

// simCounts are what the databases have to hold.
type simCounts struct {
	mu   sync.Mutex // guards what follows
	now  map[string]int
	more map[string]bool // nobody knows whether one more was counted
}

// drawDatabases lets programs count in a database, as drawLocks does.
func (s *simScript) drawDatabases(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 63))
	if r.IntN(8) != 0 || s.hazards.cuts > 0 {
		return
	}
	name := simDatabases[r.IntN(len(simDatabases))]
	for i := range 4 + r.IntN(2) {
		p := &s.programs[i%2] // not the guest, who may only read
		line := []string{"db ", "db ", "db ", "dbstat "}[r.IntN(4)] + name
		at := p.place(r)
		p.lines = slices.Insert(p.lines, at, line)
	}
}

// lockPage takes the lock of the page, or gives it back.
func (p *simProc) lockPage(f *simFile, typ uint32) unix.Errno {
	p.enter(unix.SYS_FCNTL, fmt.Sprintf("lock the page of %s", f.path))
	defer p.leave()
	in := f.k.lkIn(p, f, simLockKind{posix: true}, typ)
	in.Lock.End = simPage - 1
	do := f.k.fs.SetLkw
	if typ == unix.F_UNLCK {
		do = f.k.fs.SetLk
	}
	e := f.k.request(p, "SETLKW of the page of "+f.path, func(h Request, cancel <-chan struct{}) unix.Errno {
		in.Request, in.Node = h, f.inode.id
		return do(cancel, &in)
	})
	p.w.logf("%s locks the page of %s, type %d: %s", p, f.path, typ, result(e))
	return e
}

// countInDatabase counts in a database, twice with one open file.
func (p *simProc) countInDatabase(path string) {
	began := p.w.now()
	fd, f, e := p.open(path, unix.O_RDWR|unix.O_CREAT)
	if e != 0 {
		return
	}
	f.version = unchanged
	for range 2 {
		if e := p.lockPage(f, unix.F_WRLCK); e != 0 {
			if !p.isKilled() && !f.k.isDead() && e != unix.EDEADLK && !p.w.model.mayFail(e, began) {
				p.w.failf("%s: a lock of a page of %s must not fail with %s", p, path, result(e))
			}
			break
		}
		if !p.countPage(fd, f) {
			break
		}
	}
	p.close(fd)
}

// countPage reads the page and writes it anew, under the lock.
func (p *simProc) countPage(fd int, f *simFile) bool {
	f.pos = 0
	p.enter(unix.SYS_PREAD64, "read the page of "+f.path)
	b, e := f.k.read(p, f, simPage)
	p.w.logf("%s reads the page of %s: %q, %s", p, f.path, b, result(e))
	p.leave()
	if e != 0 {
		return false
	}
	n := p.w.model.counts.check(p, f, string(b))
	f.pos = 0
	e = p.countTo(fd, f, n+1)
	if e == 0 && n%2 == 0 {
		p.enter(unix.SYS_FSYNC, "fsync "+f.path)
		if e := f.k.fsync(p, f); e != 0 && !f.k.isDead() && !p.isKilled() && !p.w.model.mayFail(e, f.began) {
			p.w.failf("%s: fsync of a database must not fail with %s", p, result(e))
		}
		p.leave()
	}
	return p.lockPage(f, unix.F_UNLCK) == 0 && e == 0
}

// countTo writes the page. Until it is told so, nobody knows whether it has.
func (p *simProc) countTo(fd int, f *simFile, n int) unix.Errno {
	c := &p.w.model.counts
	c.mu.Lock()
	if c.more == nil {
		c.now, c.more = map[string]int{}, map[string]bool{}
	}
	c.now[f.path], c.more[f.path] = n-1, true
	c.mu.Unlock()
	e := p.write(fd, fmt.Sprintf("%0*d\n", simPage-1, n))
	if e == 0 {
		p.w.model.count("counted in a database")
		c.mu.Lock()
		c.now[f.path], c.more[f.path] = n, false
		c.mu.Unlock()
	} else if !p.isKilled() && !f.k.isDead() && !p.w.model.mayFail(e, f.began) {
		p.w.failf("%s: a write of a database must not fail with %s", p, result(e))
	}
	return e
}

// check says whether a page may hold this, and which number that is. Whoever had a descriptor when
// the daemon died may still write by it, and has no lock any more.
func (c *simCounts) check(p *simProc, f *simFile, text string) (n int) {
	if text != "" {
		if _, err := fmt.Sscanf(text, "%d\n", &n); err != nil || len(text) != simPage {
			p.w.failf("%s finds %q in %s", p, text, f.path)
			return 0
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if want := c.now[f.path]; len(p.w.buried) == 0 && !f.k.isDead() && n != want && !(c.more[f.path] && n == want+1) {
		p.w.failf("%s finds that somebody has counted to %d in %s, and it was %d", p, n, f.path, want)
	}
	return n
}

// checkDatabase reads a database when all have ended.
func (p *simProc) checkDatabase(path string) {
	text, _, ok := p.readWhole(path)
	if !ok || text == "" && p.w.model.counts.now[path] == 0 {
		return
	}
	p.w.model.counts.check(p, &simFile{k: p.w.kernel, path: path}, text)
}

// lookAtDatabase reads a database beside those who write it: a page is whole.
func (p *simProc) lookAtDatabase(path string) {
	text, _, ok := p.readWhole(path)
	var n int
	if _, err := fmt.Sscanf(text, "%d\n", &n); ok && text != "" && (err != nil || len(text) != simPage) {
		p.w.failf("%s finds %q in %s", p, text, path)
	}
}

// Programs that count in one database lose nothing, whether it is live by its name or becomes so.
func TestDatabases(t *testing.T) {
	for seed := range uint64(40) {
		name := simDatabases[seed%2]
		w := simulate(t, simBase(t), simOptions{seed: 8000 + seed, script: parseScript(strings.ReplaceAll("ann: db F; db F | bob: db F; dbstat F | cyn: db F", "F", name), simHazards{passes: int(seed / 2 % 2)})})
		if len(w.failures) > 0 {
			t.Fatalf("%s\n%s", w.transcript(), w.failures)
		}
		if n := w.model.counts.now[name]; n != 8 {
			t.Errorf("seed %d: counted to %d after %v", seed, n, w.took.Round(time.Second))
		}
	}
}
