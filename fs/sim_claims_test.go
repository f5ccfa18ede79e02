package fs

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Lock files that programs write by a convention of their own: while F.lock is there, nobody
// but the program that has written it changes what F holds (package filed).

// simClaimRules is what the policy says of them.
const simClaimRules = `
[[claim]]
glob = "*.lock"
format = "clawdbot"
covers = "file"
ttl = "0s"
foreign-ttl = "0s"
on-stale = "remove"
`

// simClaim is a claim that a program has, from the return of the close that has made it to the
// beginning of the call that removes its file.
type simClaim struct {
	p     *simProc
	k     *simKernel
	path  string // of the file that is claimed
	name  simName
	since int64
	mode  string // of a lock of the control file
	talks bool   // it is one, and ends with its daemon
}

// claims reports whether a program claims files.
func (s simScript) claims() bool { return strings.Contains(s.String(), "claim") }

// movesDirs reports whether a program renames directories.
func (s simScript) movesDirs() bool {
	text := s.String()
	return strings.Contains(text, "mv d e") || strings.Contains(text, "mv e d") || strings.Contains(text, "swap ")
}

// rules is the policy of the daemon as a file has it; "" is the default one.
func (s simScript) rules() string {
	text := s.hazards.policy()
	if s.claims() {
		text += simClaimRules
	}
	return text + simJudges(s.hazards.judges).policy()
}

// The commands.

// claim claims a file, reads it and writes it anew, and gives the claim back. Nobody else changes
// the file meanwhile, so that it is not refused.
func (p *simProc) claim(path string, keeps bool) {
	fd := p.makeClaim(path)
	if fd < 0 {
		return
	}
	record, err := json.Marshal(map[string]any{"pid": p.pid, "session_id": p.String(), "hostname": hostname(), "acquired_at": time.Now(), "operation": "count"})
	if err != nil {
		panic(err)
	}
	if p.write(fd, string(record)) != 0 {
		p.close(fd)
		return
	}
	k := p.fds[fd].k
	if p.close(fd) != 0 || k.isDead() {
		return
	}
	name, ok := k.nameAt(path)
	if ok {
		p.w.model.claimed(&simClaim{p: p, k: k, path: path, name: name})
	}
	if v, whole := p.cat(path); whole {
		e := p.echo(path, path, v)
		if again, _ := k.nameAt(path); e == unix.EBUSY && ok && again == name && !k.isDead() && p.w.model.hasClaimed(p) {
			p.w.failf("%s was refused a write of %s, which it has claimed", p, path)
		}
	}
	if !keeps {
		p.endClaim(path)
	}
}

// makeClaim creates the lock file of a path; -1 if there is one, or it cannot.
func (p *simProc) makeClaim(path string) (fd int) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	p.enter(unix.SYS_OPENAT, "claim "+path, "cwd", path+".lock")
	p.w.procs.mu.Lock()
	p.call.Args[2] = flags
	p.w.procs.mu.Unlock()
	began := p.w.now()
	f, e := p.kernel.open(p, path+".lock", flags)
	fd = -1
	if e == 0 {
		f.began, f.opened, f.by, f.version = began, p.w.now(), p, unchanged
		fd = p.install(f)
	}
	p.w.logf("%s creates %s.lock: %s", p, path, result(e))
	p.w.model.mayClaim(p, e, began)
	p.leave()
	return fd
}

// endClaim removes the lock file.
func (p *simProc) endClaim(path string) {
	p.enter(unix.SYS_UNLINKAT, "give back "+path, "cwd", path+".lock")
	p.w.model.unclaims(p)
	began := p.w.now()
	e := p.kernel.unlink(p, path+".lock", false)
	p.w.logf("%s removes %s.lock: %s", p, path, result(e))
	p.w.model.mayClaim(p, e, began)
	p.leave()
}

func hostname() string {
	host, _ := os.Hostname()
	return host
}

// removeClaim is how the daemon removes the file of a stale claim: through the mount, as a process
// does. Its process has one thread for that.
func (d *simDaemon) removeClaim(file string) error {
	d.tidies <- struct{}{}
	defer func() { <-d.tidies }()
	p := d.w.procs.forkDaemon()
	defer p.end()
	p.enter(unix.SYS_UNLINKAT, "remove the stale "+file, "daemon", file)
	e := d.kernel.unlink(p, file, false)
	p.w.logf("%s removes %s, which is stale: %s", p, file, result(e))
	p.leave()
	if e == 0 || e == unix.ENOENT {
		return nil
	}
	return e
}

// forkDaemon makes a process that is the daemon's own, and that nobody kills.
func (ps *simProcs) forkDaemon() *simProc {
	p := ps.fork(nil, simProgramOf("latchfs"))
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, p.pid)
	p.pid, p.steady = int32(os.Getpid()), true
	p.birth.PID = p.pid
	ps.all[p.pid] = p
	return p
}

// What programs may expect of claims.

// mayClaim looks at how making a claim, or giving it back, has ended.
func (m *simModel) mayClaim(p *simProc, e unix.Errno, began int64) {
	m.count("claim " + unix.ErrnoName(e))
	if !slices.Contains(expected, e) && e != unix.EDEADLK && e != unix.ENOTCONN && !(e == unix.EINTR && p.isKilled()) && !m.mayFail(e, began) {
		m.w.failf("%s: a claim must not fail with %s", p, result(e))
	}
}

// claimed notes a claim, which nobody else may have, nor the file open to write.
func (m *simModel) claimed(c *simClaim) {
	c.since = m.w.now()
	for _, o := range m.claimsOn(c.name) {
		if !o.goesWith(c) && o.p.uid == c.p.uid && (!c.talks && !o.talks || !related(o.p, c.p)) {
			m.w.failf("%s has claimed %s, and %s as well", o.p, c.path, c.p)
		}
	}
	for _, q := range m.w.procs.living() {
		if q != c.p && c.p.uid == m.w.uid && !related(q, c.p) && !m.hasLive() && slices.ContainsFunc(q.sessions(), func(o *simFile) bool { return o.isNamed() && o.named() == c.name }) {
			m.w.failf("%s has claimed %s, and %s has it open for writing", c.p, c.path, q)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = append(m.claims, c)
}

// unclaims notes that the claims of a process are about to end.
func (m *simModel) unclaims(p *simProc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = slices.DeleteFunc(m.claims, func(c *simClaim) bool { return c.p == p })
}

func (m *simModel) hasClaimed(p *simProc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.claims, func(c *simClaim) bool { return c.p == p })
}

// claimsOn are the claims on a name of those who live. The next daemon knows them, too, by the
// paths of their files.
func (m *simModel) claimsOn(name simName) (all []*simClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		at := c.name
		if c.talks && c.k != m.w.kernel {
			continue
		}
		if k := m.w.kernel; c.k != k && !m.w.opts.script.movesDirs() {
			at, _ = k.nameAt(c.path)
		}
		if at == name && at.dir != nil && c.p.lives() {
			all = append(all, c)
		}
	}
	return all
}

// keepsClaims looks for a claim against what a process has done to a name.
func (m *simModel) keepsClaims(p *simProc, name simName, what string) {
	for _, c := range m.claimsOn(name) {
		if c.p != p && !related(c.p, p) && c.since < p.called && c.p.uid == m.w.uid {
			m.w.failf("%s has claimed %s, and %s %s it", c.p, c.path, p, what)
		}
	}
}

// lives reports whether a process has neither ended nor been killed.
func (p *simProc) lives() bool {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	return p.signal == 0 && !p.ending
}

// checkClaims looks for claims that are left when everybody is dead.
func (w *simWorld) checkClaims() {
	if n := w.daemon.fs.claimFiles.filed.Count(); n > 0 {
		w.failf("%d files are claimed, and everybody is dead: %v", n, w.claimFiles())
	}
	if left := w.claimFiles(); len(left) > 0 {
		w.failf("%v are left, and everybody is dead", left)
	}
}

// claimFiles are the lock files that are there.
func (w *simWorld) claimFiles() (all []string) {
	for _, dir := range []string{"", "/d", "/e", "/d/d", "/e/e", "/d/e", "/e/d"} {
		entries, _ := os.ReadDir(w.dir + dir)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".lock") {
				all = append(all, strings.TrimPrefix(dir+"/", "/")+e.Name())
			}
		}
	}
	return all
}

// drawClaims adds commands to a script that claim files, as drawLocks does.
func (s *simScript) drawClaims(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 31))
	if r.IntN(6) != 0 {
		return
	}
	for range 1 + r.IntN(3) {
		p := &s.programs[r.IntN(len(s.programs))]
		if p.name == simGuest {
			p = &s.programs[0]
		}
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), []string{"claim", "claim", "claimon"}[r.IntN(3)]+" "+names[r.IntN(len(names))])
	}
}

// A program waits to claim a file, which gets a further name meanwhile. It has the file when
// nobody writes it by the other name.
func TestClaimOfAFileThatGetsAName(t *testing.T) {
	script := parseScript("ann: bumpln d/a b | cyn: claimon d/a | bob: echo b", simHazards{})
	inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{
		"ann until call link", "cyn to the end", "ann until WRITE", "bob until OPEN", "bob to the end", "ann to the end", "bob until WRITE", "cyn to the end", "bob to the end",
	}})
}

// A program waits to claim a file that another one has claimed. When that gives its claim back,
// the next one waits for those who have the file locked.
func TestClaimAfterAnother(t *testing.T) {
	script := parseScript("ann: claim a | cyn: hold a | bob: claimon a", simHazards{})
	inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{
		"ann until FLUSH a.lock", "bob until CREATE", "ann until call give", "cyn until SETLK", "cyn to the end", "bob to the end", "ann to the end", "cyn until call close", "bob to the end", "cyn to the end",
	}})
}

// A program has claimed a file by two names when the daemon dies: the next one knows both claims.
func TestClaimsOfOneFileOutliveTheDaemon(t *testing.T) {
	script := parseScript("ann: ln a b; claimon a; claimon b; cat a", simHazards{})
	inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"ann until GETATTR", "ann until call claim b", "ann until call open b", "crash", "ann to the end"}})
}
