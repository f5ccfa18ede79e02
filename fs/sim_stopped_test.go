package fs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// Programs that are stopped (SIGSTOP) while they write a file, or have it locked, where leases are
// short. The lock of one that is stopped for longer than that may be somebody else's when it goes
// on: it is told so, as the victim of a theft is, and nobody loses anything.

// drawLease adds commands that are stopped on the way to a script, whose policy has short leases
// then, as drawLocks does.
func (s *simScript) drawLease(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 52))
	if r.IntN(6) != 0 {
		return
	}
	s.hazards.lease = 200 + r.IntN(2)
	// Not drawn yet: "pause" before the "commit" of a transaction whose locks others steal, after
	// which a session may be left when everybody is dead.
	for range 1 + r.IntN(3) {
		name, p := names[r.IntN(len(names))], r.IntN(2) // not the guest, who may only read
		command := []string{"stop", "stop", "stop", "stopguard", "stopguard", "stoplock", "stoptree"}[r.IntN(7)]
		other := []string{"echo", "count", "echo", "wrest", "wrest", "unlock", "guard", "lock", "mv a", "rm"}[r.IntN(10)]
		if command == "stoptree" {
			name, other = "d", []string{"wrest", "unlock", "echo d/a;", "guard d/b;"}[r.IntN(4)]
		}
		for i, line := range []string{command + " " + name, other + " " + name} {
			line, _, _ = strings.Cut(line, ";")
			q := &s.programs[(p+i)%2]
			at := q.place(r)
			q.lines = slices.Insert(q.lines, at, line)
		}
	}
}

// leasePolicy is what a policy with short leases says: of an odd one that the next in the queue
// gets the lock of who has shown no sign of life.
func (h simHazards) leasePolicy() string {
	text := "ttl = \"" + h.leaseTime().String() + "\"\n"
	if h.lease%2 == 1 {
		text += "on-stale = \"steal\"\n"
	}
	return text
}

func (h simHazards) leaseTime() time.Duration { return time.Duration(h.lease) * time.Millisecond }

// simStop is for how long a process has been stopped. It is guarded by simProcs.mu.
type simStop struct {
	since time.Time // zero: it is not
	idle  time.Duration
}

// cpu is the processor time of a process that works whenever it can.
func (s *simStop) cpu(began time.Time) (used time.Duration, state byte) {
	used = time.Since(began) - s.idle
	if s.since.IsZero() {
		return used, 'S'
	}
	return used - time.Since(s.since), 'T'
}

// stops lets the process be stopped for a while.
func (p *simProc) stops() {
	m, ps := &p.w.model, p.w.procs
	if lease := p.w.opts.script.hazards.leaseTime(); lease > 0 {
		m.mayLose(p)
		r := rand.New(rand.NewPCG(p.w.opts.seed, uint64(p.pid)))
		ps.mu.Lock()
		p.stopped.since = time.Now()
		ps.mu.Unlock()
		p.w.logf("%s is stopped", p)
		time.Sleep(lease * []time.Duration{1, 4, 8, 16}[r.IntN(4)] / 2)
		ps.mu.Lock()
		p.stopped.idle += time.Since(p.stopped.since)
		p.stopped.since = time.Time{}
		ps.mu.Unlock()
		p.w.logf("%s goes on", p)
	}
	p.leaveIfKilled()
	if p.txn != nil { // which may be lost: all that is left is to commit it
		p.txn.paused = true
	}
}

// mayLose notes that others may get what a process has locked.
func (m *simModel) mayLose(p *simProc) {
	m.unclaims(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = slices.DeleteFunc(m.held, func(h *simHeld) bool { return h.p == p })
}

func (p *simProc) runStopped(command, path string) {
	switch command {
	case "stop":
		p.stopAndWrite(path)
	case "stoptree":
		if fd, ok := p.talk(); ok {
			if _, ok := p.request(fd, control.Request{Op: control.Acquire, Trees: []string{path}, Wait: briefly(simWait)}); ok {
				p.stops()
				p.echo(path+"/a", "", "")
				p.request(fd, control.Request{Op: control.Release, All: true})
			}
			p.close(fd)
		}
	case "stopguard":
		if fd, _, ok := p.acquires(control.Request{Paths: []string{path}}); ok {
			p.stops()
			p.request(fd, control.Request{Op: control.Check, Paths: []string{path}})
			if v, ok := p.cat(path); ok {
				p.echo(path, path, v)
			}
			p.request(fd, control.Request{Op: control.Release, Paths: []string{path}})
			p.hangUp(fd)
		}
	case "stoplock":
		if fd, _, e := p.open(path, unix.O_RDONLY); e == 0 {
			if p.lock(fd, simLockKind{alone: true}) {
				p.stops()
				p.readAll(fd)
			}
			p.close(fd)
		}
	}
}

// stopAndWrite writes a file anew, and is stopped when it has written a part.
func (p *simProc) stopAndWrite(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	for i, part := range versionText(f.version) {
		if i == 1 {
			p.stops()
			if f.isRobbed() {
				p.w.model.count("stopped, and robbed")
			}
		}
		if p.write(fd, part) != 0 {
			break
		}
	}
	p.close(fd)
}
