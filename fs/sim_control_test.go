package fs

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// What programs ask for on .locks/control, as the commands of latchfs do: locks of files and of
// names, several at a time, for themselves or for the program that has started them; waits that
// nobody waits for any more; questions meanwhile; and locks that are taken away.

// controlLines are the commands that do so, with what they are on.
var controlLines = []string{
	"guard F", "guard F", "guard F G", "guard F G", "guard F G", "consult F", "consult F G", "await F", "shrink F G", "shrink F G", "named deploy", "named deploy", "named import",
	"hasty F", "impatient F", "impatient F", "impatient F G", "both F G", "acquire F", "acquire F", "acquire F G", "release F", "yield F",
	"inquire F", "inquire F G", "wrest F", "wrest F", "unlock F", "pin F", "pin F", "forget F",
}

// drawControl adds such commands to a script, as drawLocks does.
func (s *simScript) drawControl(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 50))
	if r.IntN(5) != 0 {
		return
	}
	for range 2 + r.IntN(3) {
		line := controlLines[r.IntN(len(controlLines))]
		for _, x := range []string{"F", "G"} {
			line = strings.Replace(line, " "+x, " "+names[r.IntN(len(names))], 1)
		}
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		if r.IntN(4) == 0 {
			p = &s.programs[r.IntN(len(s.programs))]
		}
		if p.name == simGuest {
			line = "consult " + names[r.IntN(len(names))]
		}
		at := p.place(r)
		p.lines = slices.Insert(p.lines, at, line)
	}
}

// locksByControl reports whether a program locks files by their names through the control file.
func (s simScript) locksByControl() bool {
	text := s.String()
	return slices.ContainsFunc(controlLines, func(line string) bool {
		command, _, _ := strings.Cut(line, " ")
		return strings.Contains(text, command+" ")
	})
}

// The conversation.

// tell writes requests to the control file, all at once.
func (p *simProc) tell(fd int, all ...control.Request) unix.Errno {
	var text strings.Builder
	for _, r := range all {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		text.Write(append(line, '\n'))
	}
	return p.write(fd, text.String())
}

// hear reads a number of replies.
func (p *simProc) hear(fd, n int) (all []control.Reply, e unix.Errno) {
	f := p.fds[fd]
	var text []byte
	for len(all) < n {
		p.enter(unix.SYS_READ, "read a reply")
		b, e := f.k.read(p, f, 1<<16)
		text = append(text, b...)
		p.w.logf("%s reads %d bytes of replies: %s", p, len(b), result(e))
		p.leave()
		if e != 0 || len(b) == 0 {
			if e == 0 {
				p.w.failf("%s waits for %d replies, and has had %d", p, n, len(all))
			}
			return all, unix.ENOTCONN
		}
		for {
			line, rest, ok := strings.Cut(string(text), "\n")
			if !ok {
				break
			}
			var reply control.Reply
			if err := json.Unmarshal([]byte(line), &reply); err != nil {
				p.w.failf("%s reads the reply %q: %v", p, line, err)
			}
			all, text = append(all, reply), []byte(rest)
		}
	}
	return all, 0
}

// request is ask, whose reply must be one of those that a program may meet.
func (p *simProc) request(fd int, r control.Request) (reply control.Reply, ok bool) {
	reply, e := p.ask(fd, r)
	if e != 0 {
		if k := p.kernel; !p.isKilled() && !k.isDead() && e != unix.ENOTCONN {
			p.w.failf("%s asks for %s, and is answered %s", p, r.Op, result(e))
		}
		return reply, false
	}
	p.mayHear(&reply)
	return reply, reply.OK
}

// mayHear looks whether a reply is one that a program may meet.
func (p *simProc) mayHear(reply *control.Reply) {
	said := "ok"
	if reply.Refusal != nil {
		said = reply.Error
	}
	p.w.model.count("reply " + said)
	may := []string{"ok", control.Blocked, control.Stale, control.Deadlock, control.Fenced, control.NotHolder, control.NotAllowed, control.NotKept, control.NoSuchVersion, control.StillKept}
	if !slices.Contains(may, said) && len(p.w.model.faults) == 0 {
		p.w.failf("%s: a request must not be answered %q: %s", p, said, reply.Message)
	}
}

// briefly is how long a request waits.
func briefly(d time.Duration) *control.Duration {
	w := control.Duration(d)
	return &w
}

// holds notes the locks that a reply has given to a process; they end with the conversation, or
// with the process.
func (p *simProc) holds(of *simProc, k *simKernel, mode string, paths ...string) (all []*simClaim) {
	if k.isDead() {
		return nil
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if name, ok := k.nameAt(path); ok {
			c := &simClaim{p: of, k: k, path: path, name: name, mode: mode, talks: true}
			p.w.model.claimed(c)
			all = append(all, c)
		}
	}
	return all
}

// acquires asks for a lock of paths, and returns the conversation that has it.
func (p *simProc) acquires(r control.Request) (fd int, all []*simClaim, ok bool) {
	if fd, ok = p.talk(); !ok {
		return -1, nil, false
	}
	r.Op = control.Acquire
	if r.Wait == nil {
		r.Wait = briefly(simWait)
	}
	k := p.fds[fd].k
	if _, ok = p.request(fd, r); !ok {
		p.close(fd)
		return -1, nil, false
	}
	return fd, p.holds(p, k, r.Mode, r.Paths...), true
}

// hangUp closes the conversation, and with it its locks end.
func (p *simProc) hangUp(fd int) {
	p.w.model.unclaims(p)
	p.close(fd)
}

// countUnder reads a file and writes it anew, as one who has locked it and is not refused.
func (p *simProc) countUnder(c *simClaim) {
	deaf := p.isDeaf(c.path)
	v, ok := p.cat(c.path)
	if !ok {
		return
	}
	e := p.echo(c.path, c.path, v)
	if again, _ := c.k.nameAt(c.path); e == unix.EBUSY && !deaf && again == c.name && !c.k.isDead() && p.w.model.keeps(c) {
		p.w.failf("%s was refused a write of %s, which it has locked", p, c.path)
	}
}

// The commands.

// guard locks files and counts in each, as `latchfs guard` does.
func (p *simProc) guard(paths ...string) {
	fd, all, ok := p.acquires(control.Request{Paths: paths})
	if !ok {
		return
	}
	p.inquires(fd, all)
	for _, c := range all {
		p.countUnder(c)
	}
	p.hangUp(fd)
}

// consult shares a lock of files, or has an update lock, and reads each twice.
func (p *simProc) consult(mode string, paths ...string) {
	fd, all, ok := p.acquires(control.Request{Paths: paths, Mode: mode})
	if !ok {
		return
	}
	for _, c := range all {
		v, ok := p.cat(c.path)
		again, still := p.cat(c.path)
		if name, _ := c.k.nameAt(c.path); ok && still && v != again && name == c.name && !c.k.isDead() && p.uid == p.w.uid && !p.w.opts.script.appends() && !p.w.model.hasLive() && p.w.model.keeps(c) {
			p.w.failf("%s read %s and then %s from %s, of which it shares a lock", p, v, again, c.path)
		}
	}
	p.hangUp(fd)
}

// shrinkLock locks two files, gives one back, and counts in the other.
func (p *simProc) shrinkLock(one, other string) {
	fd, all, ok := p.acquires(control.Request{Paths: []string{one, other}})
	if !ok {
		return
	}
	for _, c := range all {
		if c.path == one {
			p.w.model.gives(c)
		}
	}
	if r, ok := p.request(fd, control.Request{Op: control.Release, Paths: []string{one}}); ok && r.Released != 1 && one != other && p.w.model.keepsAll(all) {
		p.w.failf("%s gives back %s of the two that it has locked, and %d locks were released", p, one, r.Released)
	}
	for _, c := range all {
		if c.path != one {
			p.countUnder(c)
		}
	}
	p.hangUp(fd)
}

// named has a lock that stands for no file, which nobody else has meanwhile.
func (p *simProc) named(name string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	k := p.fds[fd].k
	if _, ok := p.request(fd, control.Request{Op: control.Acquire, Names: []string{name}, Wait: briefly(simWait)}); ok {
		c := &simClaim{p: p, k: k, path: "the name " + name, name: simName{k.root, "//" + name}, talks: true}
		if !k.isDead() {
			p.w.model.claimed(c)
		}
		p.inquires(fd, nil)
		p.request(fd, control.Request{Op: control.Check, Names: []string{name}})
	}
	p.hangUp(fd)
}

// impatient asks for a lock, and closes the conversation without waiting for the reply.
func (p *simProc) impatient(paths ...string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	p.tell(fd, control.Request{Op: control.Acquire, Paths: paths, Wait: briefly(simWait)})
	time.Sleep(20 * time.Millisecond)
	p.leaveIfKilled()
	p.close(fd)
}

// both has two requests under way at once, and asks who has what meanwhile.
func (p *simProc) both(one, other string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	k, wait := p.fds[fd].k, briefly(simWait)
	e := p.tell(fd, control.Request{Op: control.Acquire, ID: "1", Paths: []string{one}, Wait: wait},
		control.Request{Op: control.Acquire, ID: "2", Paths: []string{other}, Wait: wait}, control.Request{Op: control.List, ID: "3"})
	if e == 0 {
		all, _ := p.hear(fd, 3)
		for _, r := range all {
			p.mayHear(&r)
			if path := map[string]string{"1": one, "2": other}[r.ID]; r.OK && path != "" && (path != other || one != other) {
				p.holds(p, k, "", path)
			}
		}
	}
	p.w.model.unclaims(p)
	p.request(fd, control.Request{Op: control.Release, All: true})
	p.hangUp(fd)
}

// acquireByChild has a child lock files for the process, as `latchfs acquire` does in a script,
// and counts in each. They are locked until they are given back, or the process ends.
func (p *simProc) acquireByChild(paths ...string) {
	p.child("acquiring", paths...)
	for _, c := range p.w.model.claimsOf(p) {
		if c.k == p.w.kernel && !strings.HasPrefix(c.name.name, "//") {
			p.countUnder(c)
		}
	}
}

// child runs a command of latchfs, and waits for it.
func (p *simProc) child(command string, args ...string) {
	child := p.fork(command + " " + strings.Join(args, " "))
	<-child.dead
	p.leaveIfKilled()
}

// acquiring is what that child does.
func (p *simProc) acquiring(paths ...string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	k := p.fds[fd].k
	if _, ok := p.request(fd, control.Request{Op: control.Acquire, Paths: paths, Holder: p.parent.pid, Wait: briefly(simWait)}); ok && p.parent.lives() {
		p.holds(p.parent, k, "", paths...)
	}
	p.close(fd)
}

// releasing gives back what a child has locked for the process.
func (p *simProc) releasing(path string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	for _, c := range p.w.model.claimsOf(p.parent) {
		if c.path == path {
			p.w.model.gives(c)
		}
	}
	p.request(fd, control.Request{Op: control.Release, Paths: []string{path}, Holder: p.parent.pid})
	p.close(fd)
}

// yield locks a file, and gives the lock back as people do who find it in .locks/held.
func (p *simProc) yield(path string) {
	fd, all, ok := p.acquires(control.Request{Paths: []string{path}})
	if !ok {
		return
	}
	still := p.w.model.keepsAll(all) && len(all) > 0
	p.w.model.unclaims(p)
	if e := p.removeRecord(path); e == unix.ENOENT && still && !p.w.kernel.isDead() && all[0].k == p.w.kernel {
		if again, _ := all[0].k.nameAt(path); again == all[0].name {
			p.w.failf("%s has locked %s, and does not find the lock to remove it", p, path)
		}
	}
	p.hangUp(fd)
}

// removeRecord removes the record of a lock.
func (p *simProc) removeRecord(path string) unix.Errno {
	defer p.looking()()
	at := ".locks/held/" + path + ".lock"
	p.enter(unix.SYS_UNLINKAT, "unlink "+at, "cwd", at)
	p.w.model.unclaimsAt(p, path)
	e := p.kernel.unlink(p, at, false)
	p.w.logf("%s removes %s: %s", p, at, result(e))
	p.w.model.count("unlock " + unix.ErrnoName(e))
	if may := []unix.Errno{0, unix.ENOENT, unix.EBUSY, unix.EPERM, unix.ENOTDIR, unix.EISDIR, unix.ENOTCONN}; !slices.Contains(may, e) && !p.isKilled() {
		p.w.failf("%s: to remove %s must not fail with %s", p, at, result(e))
	}
	p.leave()
	return e
}

// inquires asks who has what, and is told of its own locks.
func (p *simProc) inquires(fd int, all []*simClaim) {
	for _, c := range all {
		r, ok := p.request(fd, control.Request{Op: control.Check, Paths: []string{c.path}})
		var one struct {
			Locked bool `json:"locked"`
			Ours   bool `json:"we_hold_it"`
		}
		if !ok || len(r.Locks) != 1 || json.Unmarshal(r.Locks[0], &one) != nil {
			continue
		}
		if again, _ := c.k.nameAt(c.path); again == c.name && !c.k.isDead() && p.w.model.keeps(c) && (!one.Locked || !one.Ours) {
			p.w.failf("%s has locked %s, and is told %s", p, c.path, r.Locks[0])
		}
	}
	if r, ok := p.request(fd, control.Request{Op: control.List, Mine: true}); ok && len(r.Locks) == 0 && len(all) > 0 && p.w.model.keepsAll(all) {
		p.w.failf("%s has locked %s, and the list of its locks is empty", p, all[0].path)
	}
}

// inquire asks who has files.
func (p *simProc) inquire(paths ...string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	if r, ok := p.request(fd, control.Request{Op: control.Check, Paths: paths}); ok && len(r.Locks) != len(paths) {
		p.w.failf("%s asks about %v, and is told %s", p, paths, r.Locks)
	}
	p.request(fd, control.Request{Op: control.List})
	p.request(fd, control.Request{Op: control.Label, Actor: p.comm + "-as-label"})
	p.close(fd)
	for _, file := range []string{"status", "why", "status.json", "held/" + paths[0] + ".lock", "waiting/" + paths[0]} {
		p.look(file)
	}
}

// wrest takes the lock of a file away, if its holder is another user, or has shown no sign of life.
func (p *simProc) wrest(path string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	theft := control.Request{Op: control.Steal, Paths: []string{path}}
	if slices.Contains(simDirs, path) {
		theft.Paths, theft.Trees = nil, []string{path}
	}
	p.request(fd, theft)
	theft.Force = true
	r, ok := p.request(fd, theft)
	if ok && r.Stolen > 0 {
		p.w.model.count("locks stolen")
	}
	p.close(fd)
}

// pin keeps an earlier version of a file while it reads it and writes the file anew, as
// `latchfs undo` does; or lets none be kept.
func (p *simProc) pin(file string, forgets bool) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	defer func() {
		if p.fds[fd] != nil {
			p.close(fd)
		}
	}()
	if forgets {
		p.request(fd, control.Request{Op: control.Forget, Paths: []string{file}})
		return
	}
	k := p.kernel
	for _, n := range p.ls(".locks/history/" + file) {
		var number uint64
		if json.Unmarshal([]byte(n), &number) != nil {
			continue
		}
		if _, ok := p.request(fd, control.Request{Op: control.Pin, Paths: []string{file}, Version: number}); !ok {
			continue
		}
		if text, e := p.look("history/" + file + "/" + n); e == 0 && p.w.disk == nil {
			if v, whole := versionOf(text); whole && !k.isDead() {
				p.w.model.count("a pinned version is written anew")
				p.echoAs(file, "", v)
			}
		}
		p.request(fd, control.Request{Op: control.Unpin, Paths: []string{file}, Version: number})
		return
	}
}

// What programs may expect of them: see simClaim.

// keeps reports whether a claim is still noted.
func (m *simModel) keeps(c *simClaim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.claims, c)
}

func (m *simModel) keepsAll(all []*simClaim) bool {
	return !slices.ContainsFunc(all, func(c *simClaim) bool { return !m.keeps(c) || c.k.isDead() })
}

// gives notes that one claim is about to end.
func (m *simModel) gives(c *simClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = slices.DeleteFunc(m.claims, func(o *simClaim) bool { return o == c })
}

// claimsOf are the claims of a process.
func (m *simModel) claimsOf(p *simProc) (all []*simClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if c.p == p {
			all = append(all, c)
		}
	}
	return all
}

// unclaimsAt notes that what a process has locked under a path is about to end.
func (m *simModel) unclaimsAt(p *simProc, path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = slices.DeleteFunc(m.claims, func(c *simClaim) bool { return c.talks && c.path == path && related(c.p, p) })
}

// goTogether reports whether two claims go together.
func (c *simClaim) goesWith(o *simClaim) bool {
	shared := func(x *simClaim) bool { return x.mode == modeShared }
	return c.talks && o.talks && (shared(c) && (shared(o) || o.mode == modeUpdate) || shared(o) && c.mode == modeUpdate)
}

const (
	modeShared = "shared"
	modeUpdate = "update"
)

// runControl runs one of the commands.
func (p *simProc) runControl(f []string) {
	switch args := f[1:]; f[0] {
	case "guard":
		p.guard(args...)
	case "consult":
		p.consult(modeShared, args...)
	case "await":
		p.consult(modeUpdate, args...)
	case "shrink":
		p.shrinkLock(args[0], args[1])
	case "named":
		p.named(args[0])
	case "hasty":
		if fd, all, ok := p.acquires(control.Request{Paths: args, Wait: briefly(0)}); ok {
			for _, c := range all {
				p.countUnder(c)
			}
			p.hangUp(fd)
		}
	case "impatient":
		p.impatient(args...)
	case "both":
		p.both(args[0], args[1])
	case "acquire":
		p.acquireByChild(args...)
	case "acquiring":
		p.acquiring(args...)
	case "release":
		p.child("releasing", args[0])
	case "releasing":
		p.releasing(args[0])
	case "yield":
		p.yield(args[0])
	case "unlock":
		p.removeRecord(args[0])
	case "inquire":
		p.inquire(args...)
	case "wrest":
		p.wrest(args[0])
	case "pin", "forget":
		p.pin(args[0], f[0] == "forget")
	}
}

// A reader of another user has a part of a file locked, and a program has the file. Who asks is told
// of its own lock, and not of the other, which binds nobody but those who lock.
func TestCheckBesideTheLockOfAReader(t *testing.T) {
	w := inTurns(t, []simProgram{simProgramOf("gus", "rdlock a"), simProgramOf("ann", "guard a")}, "gus until READ a", "ann to the end", "gus to the end")
	if w.model.done["reply ok"] == 0 {
		t.Error("ann was told nothing")
	}
}
