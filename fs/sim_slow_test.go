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

	"latchfs/lockmgr/policy"
)

// Slow logs: programs append records in pieces and take their time between them, so that others
// find, and append behind, what is not finished. The files are l1 and l2, which nobody else uses
// and which the model of names leaves out. What is asked of them is asked of the pieces, each of
// which is one write and is known by its text:
//
//	ann7.1;ann7.2;ann7.3⏎    the record ann7, in three pieces
//
//   - a piece is in the file as a whole, once, and behind those that its descriptor has appended
//     before; a reader finds each record that was acknowledged before it opened the file;
//   - of a record whose pieces came in quick succession nobody finds pieces apart;
//   - what was acknowledged is there at the end, in one of the files, unless its program or the
//     daemon was killed: of a killed program's last record, if that is not finished, nothing is
//     there, and its pieces are kept aside.

// simSlowNames are the files of which slow logs are.
var simSlowNames = []string{"l1", "l2", simLiveLog}

// simLiveLog is one that is live by its name (DESIGN §4.5): what is written to it is in the file at
// once, and stays there when its program is killed.
const simLiveLog = "l1.log"

func isSlowName(path string) bool {
	return strings.HasPrefix(path, simTreePrefix) || isDatabase(path) || slices.ContainsFunc(simSlowNames, func(n string) bool { return strings.HasPrefix(path, n) })
}

// simSlow is one open file of a program that appends slowly.
type simSlow struct {
	p       *simProc
	k       *simKernel
	killed  bool
	doubt   bool // a write or the close has failed
	records []*simSlowRecord
}

// simSlowRecord is a record of it.
type simSlowRecord struct {
	name        string
	pieces      []string
	acked       int       // so many pieces
	ended       int64     // when the last was acknowledged; 0: it is not finished
	loose       bool      // its file may be live, where each piece is in the file at once, and stays
	synced      bool      // when a piece of it had been written and the rest had not
	began, last time.Time // when the first piece was written, and the last so far
	paused      bool      // the pieces are so far apart that nobody remembers them as one record
}

// simSlows are the slow logs of a simulation.
type simSlows struct {
	mu     sync.Mutex // guards what follows
	all    []*simSlow
	tidied bool // a file was written anew
	killed bool // somebody was, who was appending
	found  map[string]string
}

// drawSlows adds slow logs, as drawLocks does.
func (s *simScript) drawSlows(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 41))
	if r.IntN(5) != 0 {
		return
	}
	lines := []string{"slow l1", "slow l1", "slow l1", "slow l2", "tally l1", "mvnew l1 l2", "tidy l1"}
	if r.IntN(4) == 0 { // who saves a file that is live takes it away from those who write it
		lines = []string{"slow l1", "slow l2", "slow l1.log", "slow l1.log", "mvnew l1.log l1", "mvnew l1.log l2", "mvnew l1 l2", "mvnew l2 l1.log"}
	}
	if r.IntN(2) == 0 { // nothing else, so that their lines meet
		s.programs[0].lines, s.programs[1].lines = []string{"slow l1"}, []string{"slow l1"}
		s.hazards.kills = max(s.hazards.kills, 3)
	}
	for i := range 2 + r.IntN(4) {
		p := &s.programs[i%2] // not the guest, who may only read
		line := lines[r.IntN(len(lines))]
		if line == "tidy l1" && (slices.Contains(p.lines, line) || s.losesUpdates()) {
			line = "slow l1" // who tries again insists
		}
		at := p.place(r)
		p.lines = slices.Insert(p.lines, at, line)
	}
}

// place is where a command may be put into the program: somewhere, or at the beginning where that
// would be within a block.
func (p *simProgram) place(r *rand.Rand) int {
	at := r.IntN(len(p.lines) + 1)
	if p.isInBlock(at) {
		at = 0
	}
	return at
}

// isInBlock reports whether what is inserted at a place would be in a transaction.
func (p *simProgram) isInBlock(at int) (is bool) {
	for _, line := range p.lines[:at] {
		command, _, _ := strings.Cut(line, " ")
		is = command == "begin" || is && command != "commit" && command != "rollback"
	}
	return is
}

// losesUpdates reports whether the policy lets a program replace what it has not read.
func (s *simScript) losesUpdates() bool {
	return s.hazards.updates == policy.IgnoreLost || s.hazards.updates == policy.WarnLost
}

// slow appends records in pieces, with pauses that the seed and the process decide.
func (p *simProc) slow(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND)
	if e != 0 {
		return
	}
	r := rand.New(rand.NewPCG(p.w.opts.seed, uint64(p.pid)))
	l := &simSlow{p: p, k: f.k}
	slows := &p.w.model.slows
	slows.mu.Lock()
	slows.all = append(slows.all, l)
	slows.mu.Unlock()
	defer func() { // also where the process is killed
		slows.mu.Lock()
		defer slows.mu.Unlock()
		l.killed = l.killed || p.isKilled()
		slows.killed = slows.killed || l.killed
	}()
	for range 1 + r.IntN(3) {
		rec := &simSlowRecord{name: p.w.model.newVersion(p), loose: strings.Contains(p.w.opts.script.String(), simLiveLog)}
		n := 1 + r.IntN(3)
		for i := range n {
			rec.pieces = append(rec.pieces, fmt.Sprintf("%s.%d%c", rec.name, i+1, ";\n"[(i+1)/n]))
		}
		slows.mu.Lock()
		l.records = append(l.records, rec)
		slows.mu.Unlock()
		for i := range n {
			if i > 0 {
				p.pause(r, []time.Duration{0, 0, 30, 150, 400, 2500, 2500, 11000}[r.IntN(8)]*time.Millisecond)
			}
			if !p.appendPiece(fd, l, rec) {
				break
			}
			if rec.ended == 0 && r.IntN(12) == 0 {
				p.syncPiece(fd, l, rec)
			}
		}
		if l.doubt {
			break
		}
	}
	if p.close(fd) != 0 {
		slows.mu.Lock()
		l.doubt = true
		slows.mu.Unlock()
	}
}

// pause lets a program sleep, or compute.
func (p *simProc) pause(r *rand.Rand, d time.Duration) {
	if d == 0 {
		return
	}
	computes := r.IntN(4) == 0
	if !computes {
		p.enter(unix.SYS_NANOSLEEP, "nanosleep")
	}
	for until := time.Now().Add(d); time.Now().Before(until) && !p.isKilled(); {
		time.Sleep(30 * time.Millisecond)
	}
	if p.w.hazards.kills > 0 && r.IntN(4) == 0 {
		p.w.logf("%s is killed in a pause", p)
		p.kill()
	}
	if !computes {
		p.leave()
	}
	p.leaveIfKilled()
}

// appendPiece writes the next piece of a record.
func (p *simProc) appendPiece(fd int, l *simSlow, rec *simSlowRecord) bool {
	slows, now := &p.w.model.slows, time.Now()
	slows.mu.Lock()
	if rec.acked == 0 {
		rec.began = now
	} else if now.Sub(rec.last) > 9*time.Second {
		rec.paused = true
	}
	text := rec.pieces[rec.acked]
	slows.mu.Unlock()
	e := p.write(fd, text)
	at := p.w.now()
	slows.mu.Lock()
	defer slows.mu.Unlock()
	if e != 0 {
		l.doubt = true
		return false
	}
	rec.acked++
	rec.last = time.Now()
	if rec.acked == len(rec.pieces) {
		rec.ended = at
	}
	return true
}

// syncPiece syncs what was written: nobody takes that back.
func (p *simProc) syncPiece(fd int, l *simSlow, rec *simSlowRecord) {
	f, slows := p.fds[fd], &p.w.model.slows
	p.enter(unix.SYS_FSYNC, "fsync "+f.path)
	slows.mu.Lock()
	rec.synced = true
	slows.mu.Unlock()
	e := f.k.fsync(p, f)
	p.w.logf("%s syncs %s: %s", p, f.path, result(e))
	if e != 0 {
		slows.mu.Lock()
		l.doubt = true
		slows.mu.Unlock()
	}
	p.leave()
}

// readWhole reads a file at once.
func (p *simProc) readWhole(path string) (text string, began int64, ok bool) {
	fd, f, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		return "", 0, e == unix.ENOENT
	}
	p.enter(unix.SYS_READ, "read "+path)
	b, e := f.k.read(p, f, 4096)
	p.w.logf("%s reads %s: %q, %s", p, path, b, result(e))
	p.leave()
	p.close(fd)
	return string(b), f.began, e == 0
}

// tally reads a slow log and looks at what is in it.
func (p *simProc) tally(path string) {
	text, began, ok := p.readWhole(path)
	if !ok {
		return
	}
	p.w.model.count("slow log read")
	slows := &p.w.model.slows
	if p.comm == "observer" {
		slows.mu.Lock()
		if slows.found == nil {
			slows.found = map[string]string{}
		}
		slows.found[path] = text
		slows.mu.Unlock()
		return
	}
	if p.w.opts.script.hazards.kills == 0 && !p.w.opts.script.hazards.harmDaemon() && p.w.opts.script.keepsSlows() {
		slows.mu.Lock()
		broken := slows.checkRead(text, began, path)
		slows.mu.Unlock()
		if broken != "" {
			p.w.failf("%s reads a slow log: %s", p, broken)
		}
	}
}

// isSlow reports whether a program has slow logs.
func (s simScript) isSlow() bool { return strings.Contains(s.String(), "slow l") }

// keepsSlows reports whether slow logs keep their names and files.
func (s simScript) keepsSlows() bool {
	text := s.String()
	return !strings.Contains(text, "mvnew l") && !strings.Contains(text, "tidy ") && !strings.Contains(text, "slow l2")
}

// tidy reads a slow log and puts a file with the same content in its place, as sed -i does.
func (p *simProc) tidy(path string) {
	text, _, ok := p.readWhole(path)
	if !ok || text == "" {
		return
	}
	slows := &p.w.model.slows
	slows.mu.Lock()
	slows.tidied = true
	slows.mu.Unlock()
	temp := fmt.Sprintf("%s.tmp%d", path, p.pid-firstPID)
	fd, _, e := p.open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if e != 0 {
		return
	}
	if p.write(fd, text) != 0 {
		p.close(fd)
		return
	}
	if p.close(fd) == 0 {
		p.mv(temp, path, "", 0)
	}
}

// Three programs append pieces of records, one behind the other, and the second is killed: its
// pieces are taken out from between those of the others, who go on.
func TestKilledBetweenPieces(t *testing.T) {
	programs := []simProgram{simProgramOf("ann", "slow l1"), simProgramOf("bob", "slow l1"), simProgramOf("cyn", "slow l1")}
	for seed := range uint64(40) {
		w := simulate(t, simBase(t), simOptions{seed: 5000 + seed, script: simScript{programs: programs, hazards: simHazards{kills: 10}}})
		if len(w.failures) > 0 {
			t.Fatalf("%s\n%s", w.transcript(), w.failures)
		}
	}
}
