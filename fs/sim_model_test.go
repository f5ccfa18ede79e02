package fs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"
)

// simModel is what programs may expect: names that hold versions, as in a plain
// directory, where each system call happens at one moment between its beginning and its
// end, a written file is replaced as a whole by its last close, and one that is refused
// or killed changes nothing.
type simModel struct {
	w *simWorld

	mu       sync.Mutex
	versions int
	handles  int
	start    map[string]string
	seen     map[string]bool // names
	ops      []porcupine.Operation
	done     map[string]int // how often what ended how
	held     []*simHeld
	claims   []*simClaim
	faults   []int64    // when the disk has failed
	lines    []*simFile // of which a line is not finished
	lostLate bool       // it has failed in the background, too
	synced   []*simFile // whose last close has not returned
	live     bool       // a file has appeared before its close
	slows    simSlows
	counts   simCounts
	late     []simLate // see sim_hidden_test.go
}

// simOp is what a program has done, for the model.
type simOp struct {
	kind     string // read, write, rename, unlink, mkdir, rmdir, stat
	path, to string
	version  string   // read or written; "" of a read: there is no such file
	known    string   // the version that must be there before, or ""
	bases    []string // the versions that its writer has read, the last one first, if it may be merged
	flags    uint32   // of a rename
	who      string   // the process
	wide     bool     // a directory was renamed meanwhile
	dir      string   // the number of the directory that path led to, if not as it reads
	dirTo    string   // likewise
	killed   bool     // in the midst of it
	cut      bool     // of a read: its end may be missing, for the file is written in place
	since    int64    // when what may have failed began; 0: with the operation
	synced   bool     // it was synced before
	handle   string   // the number of an open file, or of a new directory
	errno    unix.Errno
	txn      string   // the number of the transaction in which it was done; of a commit, which is committed
	loose    bool     // of a read in a transaction: of a file that may have several names
	attrs    simAttrs // set, or seen
	judges   simJudges
	forgets  bool // a daemon may have died since a file got its names
}

func (o simOp) String() string {
	s := strings.TrimSpace(o.kind + " " + o.path)
	if o.to != "" {
		s += " to " + o.to
	}
	if o.version != "" {
		s += " version " + o.version
	}
	if o.known != "" {
		s += ", knowing " + o.known
	}
	return s + ": " + result(o.errno)
}

// prepare makes the files that are there at the beginning.
func (m *simModel) prepare(t testing.TB, dir string) {
	m.start, m.seen, m.done = map[string]string{"0/d": "dir:1"}, map[string]bool{}, map[string]int{}
	m.handles = 1
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "d/a", "d/b"} {
		v, key := fmt.Sprintf("old%d", i+1)+m.judges().mark(false), []string{"0/a", "1/a", "1/b"}[i]
		if err := os.WriteFile(dir+"/"+name, []byte(strings.Join(versionText(v), "")), 0o644); err != nil {
			t.Fatal(err)
		}
		m.start[key] = v
	}
	m.prepareSheets(t, dir)
}

func (m *simModel) newVersion(p *simProc) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions++
	v := fmt.Sprintf("%s%d", strings.TrimSuffix(p.comm, "-child"), m.versions)
	if m.w.opts.script.hazards.harmDaemon() { // so that half of one over another one shows
		v += strings.Repeat("x", m.versions*5%7)
	}
	return v + m.judges().mark(p.bad)
}

// looks are the commands that look at every name.
func (m *simModel) looks() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := maps.Clone(m.seen)
	if m.w.opts.script.stagesNames() {
		for _, n := range simDirs {
			all = append(all, "stat "+n)
			delete(names, n)
		}
	}
	if names["d"] || names["e"] || strings.Contains(m.w.opts.script.String(), "/") {
		for _, n := range simNames {
			names[n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if n != "d" && n != "e" && !isSlowName(n) {
			all = append(all, "cat "+n)
		}
	}
	if m.w.opts.script.isSlow() {
		all = append(all, "tally l1", "tally l2", "tally "+simLiveLog)
	}
	for _, n := range simDatabases {
		if m.seen[n] {
			all = append(all, "dbcheck "+n)
		}
	}
	return all
}

// expected are the errors that programs may meet on a plain directory, or that the
// promises name.
var expected = []unix.Errno{0, unix.EBUSY, unix.ENOENT, unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR, unix.EISDIR, unix.EINVAL}

// did notes a system call that has returned.
func (m *simModel) did(p *simProc, o simOp, began int64) {
	m.note(p, o, began, m.w.now())
}

func (m *simModel) note(p *simProc, o simOp, began, ended int64) {
	failed := m.mayFail(o.errno, cmp.Or(o.since, began))
	if !m.knowsAttrs() {
		o.attrs = nil
	}
	o.judges, o.forgets = m.judges(), m.w.opts.script.hazards.harmDaemon()
	if !slices.Contains(expected, o.errno) && !failed && !m.isDeadlock(o) && !o.isUnstaged(p) && (o.errno != unix.EBADMSG || o.judges == 0) && o.errno != unix.ENOTCONN && !((o.killed || p.isKilled()) && o.errno == unix.EINTR) {
		m.w.failf("%s: %s must not fail with %s", p, o.kind, result(o.errno))
	}
	if o.errno == unix.EBADMSG {
		m.wasRefused(p, o)
	}
	o.who = p.String()
	m.goesInto(p, &o)
	if m.w.opts.alarm != nil {
		if text := m.w.opts.alarm(o); text != "" {
			m.w.failf("%s", text)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[o.kind+" "+unix.ErrnoName(o.errno)]++
	if isSlowName(o.path) {
		return
	}
	for _, n := range []string{o.path, o.to} {
		if n != "" {
			m.seen[n] = true
		}
	}
	if o.errno == unix.ENOTCONN { // it has happened by the time that the next daemon answers, or not at all
		o.errno = unix.EINTR
		ended = p.kernel.until(ended)
	}
	if o.errno == unix.EINTR || failed {
		o.errno, o.killed = 0, true
	}
	m.ops = append(m.ops, porcupine.Operation{ClientId: int(p.pid), Input: o, Call: began, Return: ended})
}

func (m *simModel) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[what]++
}

// opened looks for two writers of one file, and notes that there is no such file.
func (m *simModel) opened(p *simProc, f *simFile, path string, flags uint32, e unix.Errno, began int64) {
	if e != 0 {
		switch {
		case flags&unix.O_CREAT == 0:
			m.did(p, simOp{kind: "read", path: path, errno: e}, began)
		case flags&unix.O_APPEND != 0 && e == unix.ENOTCONN:
			m.did(p, simOp{kind: "openlog", path: path, handle: m.newHandle(), errno: e}, began)
		case e == unix.ENOENT && p.isUnseen(): // it was removed on the way, and its second walk could not be told from another
		default:
			m.did(p, simOp{kind: "open", path: path, errno: e}, began)
		}
		return
	}
	m.mu.Lock()
	m.seen[path] = true
	m.mu.Unlock()
	if !f.writes() {
		return
	}
	f.handle = m.newHandle()
	if flags&unix.O_APPEND != 0 {
		m.did(p, simOp{kind: "openlog", path: path, handle: f.handle}, began)
		return
	}
	m.did(p, simOp{kind: "open", path: path, handle: f.handle}, began)
	if isDatabase(path) {
		return
	}
	for _, q := range m.w.procs.living() {
		if q == p || related(p, q) || m.hasLive() || f.isRobbed() {
			continue
		}
		for _, o := range q.sessions() {
			if at := f.named(); o.named() == at && at.dir != nil {
				m.w.failf("%s and %s have %s open for writing at the same time", p, q, path)
			}
		}
	}
	m.changes(p, f.named(), "has opened it to write")
}

func (m *simModel) newHandle() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handles++
	return fmt.Sprint(m.handles)
}

func related(p, q *simProc) bool {
	for a := p; a != nil; a = a.parent {
		for b := q; b != nil; b = b.parent {
			if a == b {
				return true
			}
		}
	}
	return false
}

// closes notes that a close begins: it may be the one that commits.
func (m *simModel) closes(_ *simProc, f *simFile) {
	m.closesLock(f)
	at := m.w.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.closing == 0 {
		f.closing = at
	}
}

// answered notes the answer to a close, before another one can be the last.
func (m *simModel) answered(p *simProc, f *simFile, e unix.Errno) {
	killed := p.isKilled()
	m.mu.Lock()
	defer m.mu.Unlock()
	f.refused = f.refused || e != 0
	f.killed = f.killed || killed && (p == f.by || p.wrote || !f.changed.Load() || f.flags&unix.O_ACCMODE == unix.O_RDWR)
}

// closed notes what the last close has done: it commits.
func (m *simModel) closed(p *simProc, f *simFile, e unix.Errno) {
	if !f.writes() || f.nameless {
		return
	}
	m.finishes(f)
	dead, ended := f.k.isDead(), f.k.until(m.w.now())
	if dead && f.txn != nil {
		return
	}
	if !dead {
		m.forgetSynced(f)
	}
	v := cmp.Or(f.version, "empty")
	if e == unix.EBADMSG && len(f.records) > 0 {
		m.refusedRecords(p, f, ended)
	}
	for _, r := range f.records {
		o := simOp{kind: "append", path: f.path, handle: f.handle, version: r.version, killed: f.killed || r.failed || e != 0}
		o.killed = o.killed || dead
		if r.began < ended {
			m.note(p, o, r.began, ended)
		}
	}
	if f.flags&unix.O_APPEND != 0 || v == unchanged && len(f.attrs) == 0 {
		return
	}
	o := simOp{kind: "write", path: f.path, handle: f.handle, version: v, known: f.known, bases: f.bases, attrs: f.attrs, synced: f.synced, errno: e, since: f.began, txn: f.txn.number()}
	if v == unchanged {
		o.kind = "attributes"
	}
	began := f.closing
	if f.syncing != 0 { // a new file may appear once it is synced
		began = f.syncing
	}
	switch {
	case dead && began > ended: // nobody was there to commit it
		return
	case dead:
		o.errno, o.killed = 0, !m.mustAppear(f)
		m.count("write, and the daemon dies")
	case f.killed && f.synced && !f.isRobbed() && !m.mayFail(e, f.began) && !m.judges().mayRefuse(v): // all that was written has been synced: it must be the file
		o.errno = 0
	case f.killed:
		o.errno, o.killed = unix.EINTR, true
	case f.refused && e == 0:
		o.errno = unix.EBUSY
	}
	m.note(p, o, began, ended)
}

// read notes what was read through an open file.
func (m *simModel) read(p *simProc, f *simFile, text string, e unix.Errno) {
	if e != 0 {
		m.did(p, simOp{kind: "readfrom", path: f.path, errno: e}, f.began)
		return
	}
	v, whole := versionOf(text)
	if m.hasLive() {
		return
	}
	linked := f.inode.linked.Load() || f.k.isDead() && m.w.opts.script.links() // on a later mount, which cannot know who has it open behind the dead one
	o := simOp{kind: "read", path: f.path, version: v, txn: f.txn.number()}
	switch {
	case whole && f.txn != nil && m.w.opts.script.links():
		o.loose = true
		m.note(p, o, f.began, f.opened)
		return
	case m.w.opts.script.empties(): // who empties a log cuts what its readers have open
		if whole {
			m.did(p, o, f.began)
		}
		return
	case whole && f.hasMoved() && m.w.opts.script.appends(): // under another name
		return
	case whole && linked && m.w.opts.script.appends(): // the version before, up to the end of the next one
		return
	case p.stored[v]: // what it has stored into a mapping, which may not be the file's yet
		return
	case whole && (linked || m.w.opts.script.appends()): // readers see what is appended
		o.cut = linked
		m.did(p, o, f.began)
		return
	case linked: // whoever has it open may see the update happen
		return
	case !whole && m.mayTear():
		return
	case !whole:
		m.w.failf("%s read %q from %s, which no program has written as a whole", p, text, f.path)
		return
	}
	m.note(p, o, f.began, f.opened)
}

// maxCheck is how long an order is looked for.
const maxCheck = 20 * time.Second

// check looks for an order of all operations in which a plain directory would have
// answered as the mount did.
func (m *simModel) check() {
	one := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{simState(m.start)} },
		Step:  func(state, input, _ any) []any { return state.(simState).steps(input.(simOp)) },
		Equal: func(a, b any) bool { return maps.Equal(a.(simState), b.(simState)) },
	}
	if m.w.opts.script.hazards.cuts > 0 {
		one = porcupine.NondeterministicModel{
			Init:  func() []any { return []any{simPower{now: m.start}} },
			Step:  func(state, input, _ any) []any { return state.(simPower).steps(input.(simOp)) },
			Equal: func(a, b any) bool { return a.(simPower).equal(b.(simPower)) },
		}
	}
	model := one.ToModel()
	m.widen()
	if m.hasLive() {
		return
	}
	switch porcupine.CheckOperationsTimeout(model, m.ops, maxCheck) {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		m.done["too many orders to look for one"]++
		return
	case porcupine.Illegal:
	}
	// The shortest beginning that has no such order ends with what gives it away.
	ops := slices.Clone(m.ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for i := range ops {
		if porcupine.CheckOperationsTimeout(model, cutHistory(ops, i), maxCheck) == porcupine.Illegal {
			m.w.failf("no plain directory could have answered so: %s", ops[i].Input.(simOp))
			return
		}
	}
}

// cutHistory is the history up to the end of ops[i]: what had begun by then may have
// happened.
func cutHistory(ops []porcupine.Operation, i int) []porcupine.Operation {
	cut := slices.Clone(ops[:i+1])
	for _, o := range ops[i+1:] {
		if op := o.Input.(simOp); o.Call < ops[i].Return && op.errno == 0 && op.kind != "read" && op.kind != "stat" && op.kind != "powercut" {
			op.killed, o.Return = true, math.MaxInt64
			o.Input = op
			cut = append(cut, o)
		}
	}
	return cut
}
