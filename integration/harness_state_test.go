package integration

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// HeldLock is a record of .locks/held/ as far as the tests look at it.
type HeldLock struct {
	Name      string    `json:"lock_name"`
	PID       int       `json:"pid"`
	Actor     string    `json:"actor"`
	Session   string    `json:"session"`
	Operation string    `json:"operation"`
	Mode      string    `json:"mode"`
	Class     string    `json:"class"`
	Token     uint64    `json:"token"`
	Waiters   int       `json:"waiters"`
	Created   time.Time `json:"created_at"`
	Heartbeat time.Time `json:"last_heartbeat_at"`
	Version   string    `json:"lock_version"`
	Metadata  struct {
		Program string   `json:"program"`
		UID     int      `json:"uid"`
		Command []string `json:"command"`
		Cwd     string   `json:"cwd"`
	} `json:"metadata"`
	CoHolders []HeldLock `json:"co_holders"`
}

// WaitingLock is a line of a file below .locks/waiting/.
type WaitingLock struct {
	Name      string   `json:"lock_name"`
	Place     int      `json:"place"`
	PID       int      `json:"pid"`
	Operation string   `json:"operation"`
	Mode      string   `json:"mode"`
	WaitsFor  []string `json:"waits_for"`
}

// Status is what .locks/held/, .locks/waiting/ and .locks/names/ say.
type Status struct {
	HeldLocks []HeldLock
	Queue     []WaitingLock // in queue order for each name
	Raw       string
}

// Held is how many locks are held.
func (s Status) Held() int { return len(s.HeldLocks) }

// Waiting is how many requests wait.
func (s Status) Waiting() int { return len(s.Queue) }

// HolderOf is the record of the lock on a name, nil when it is free.
func (s Status) HolderOf(name string) *HeldLock {
	for i := range s.HeldLocks {
		if s.HeldLocks[i].Name == name {
			return &s.HeldLocks[i]
		}
	}
	return nil
}

// WaitersOf lists the pids that wait for a name, next in turn first.
func (s Status) WaitersOf(name string) []int {
	var pids []int
	for _, w := range s.Queue {
		if w.Name == name {
			pids = append(pids, w.PID)
		}
	}
	return pids
}

// Locks reads a file below .locks.
func (m *Mount) Locks(name string) string {
	m.t.Helper()
	return m.control.ReadFile(filepath.Join(".locks", name))
}

// Status reads the lock tables as .locks shows them.
func (m *Mount) Status() Status {
	m.t.Helper()
	var s Status
	for _, file := range append(m.tree(".locks/held"), m.tree(".locks/names", ".lock")...) {
		s.Raw += file
		var rec HeldLock
		m.decode(file, &rec)
		s.HeldLocks = append(append(s.HeldLocks, rec), rec.CoHolders...)
	}
	var raw string
	s.Queue, raw = m.queue()
	s.Raw += raw
	return s
}

// queue reads .locks/waiting/, and the queues in .locks/names/.
func (m *Mount) queue() (queue []WaitingLock, raw string) {
	m.t.Helper()
	for _, file := range append(m.tree(".locks/waiting"), m.tree(".locks/names", ".queue")...) {
		raw += file
		for line := range strings.Lines(file) {
			var rec WaitingLock
			m.decode(line, &rec)
			queue = append(queue, rec)
		}
	}
	return queue, raw
}

// waits tells whether a process is shown in a queue.
func (m *Mount) waits(pid int) bool {
	m.t.Helper()
	queue, _ := m.queue()
	return slices.ContainsFunc(queue, func(w WaitingLock) bool { return w.PID == pid })
}

// AwaitStatus waits until the tables are shown as ok wants them, and returns
// them. .locks/ may show a snapshot that is a moment old when the machine is
// busy, so that no test may take its first look for the last word.
func (m *Mount) AwaitStatus(t testing.TB, what string, ok func(Status) bool) Status {
	t.Helper()
	var s Status
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		if s = m.Status(); ok(s) {
			return s
		}
	}
	t.Fatalf("not shown in .locks: %s; shown is\n%s", what, s.Raw)
	return s
}

// AwaitHolder waits until a process is shown as a name's holder.
func (m *Mount) AwaitHolder(t testing.TB, name string, pid int) HeldLock {
	t.Helper()
	s := m.AwaitStatus(t, name+" held by "+strconv.Itoa(pid), func(s Status) bool {
		held := s.HolderOf(name)
		return held != nil && held.PID == pid
	})
	return *s.HolderOf(name)
}

// tree reads all files below a directory whose names end as one of the suffixes,
// if there are any.
func (m *Mount) tree(dir string, suffixes ...string) []string {
	m.t.Helper()
	res := m.control.OK(wire.Request{Op: "readtree", Path: m.Path(dir)})
	files := strings.Split(string(res.Data), "\x00")
	var found []string
	for i, name := range res.Names {
		ends := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
		if len(suffixes) == 0 || slices.ContainsFunc(suffixes, ends) {
			found = append(found, files[i])
		}
	}
	return found
}

func (m *Mount) decode(text string, v any) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		m.t.Fatalf("not JSON: %v\n%s", err, text)
	}
}

// Event is a line of the audit trail.
type Event struct {
	Event     string    `json:"event"`
	Time      time.Time `json:"timestamp"`
	Path      string    `json:"path"`
	Session   string    `json:"session"`
	PID       int       `json:"pid"`
	Program   string    `json:"program"`
	Actor     string    `json:"actor"`
	Operation string    `json:"operation"`
	Token     uint64    `json:"token"`
	Bytes     int64     `json:"bytes"`
	Reason    string    `json:"reason"`
	Errno     string    `json:"errno"`
	Validator string    `json:"validator"`
	Line      int       `json:"line"`
	Column    int       `json:"column"`
	From      string    `json:"from"`
	Kept      string    `json:"kept"`
}

// Events reads the audit trail. Every line of it must be JSON.
func (m *Mount) Events() []Event {
	m.t.Helper()
	return m.parseEvents(m.Locks("events.jsonl"))
}

func (m *Mount) parseEvents(text string) []Event {
	m.t.Helper()
	var events []Event
	for line := range strings.Lines(text) {
		var e Event
		m.decode(line, &e)
		events = append(events, e)
	}
	return events
}

// EventsOf lists the events of one kind for a path.
func (m *Mount) EventsOf(kind, path string) []Event {
	m.t.Helper()
	return slices.DeleteFunc(m.Events(), func(e Event) bool { return e.Event != kind || e.Path != path })
}

// Commits is how often a path was committed.
func (m *Mount) Commits(path string) int { m.t.Helper(); return len(m.EventsOf("commit", path)) }

// AwaitEvent waits for an event of a kind for a path.
func (m *Mount) AwaitEvent(kind, path string) Event {
	m.t.Helper()
	var found []Event
	eventually(m.t, kind+" of "+path, func() bool {
		found = m.EventsOf(kind, path)
		return len(found) > 0
	})
	return found[len(found)-1]
}

// AwaitFree waits until nobody holds a name; a crashed holder's lock may take
// as long as its RELEASE takes.
func (m *Mount) AwaitFree(t testing.TB, limit time.Duration, name string) {
	t.Helper()
	within(t, limit, name+" is free", func() bool { return m.Status().HolderOf(name) == nil })
}

// AwaitWaiters waits until n requests wait for a name, and returns their pids in
// queue order.
func (m *Mount) AwaitWaiters(t testing.TB, name string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, strconv.Itoa(n)+" waiters of "+name, func() bool {
		pids = m.Status().WaitersOf(name)
		return len(pids) == n
	})
	return pids
}

// MustBlock shows that a call waits for a lock: the table has its process in a
// queue, and the call has not returned. No time is part of the proof.
func (call *Call) MustBlock(t testing.TB) {
	t.Helper()
	m := call.c.m
	if *plain {
		call.mustBlockInKernel(t)
		return
	}
	eventually(t, call.Req.Op+" waits", func() bool {
		if call.Done() {
			t.Fatalf("%s %s did not wait: %+v %v", call.Req.Op, call.Req.Path, call.res, call.err)
		}
		// The table is asked only when the process sleeps in the call.
		return call.asleep() && m.waits(call.c.PID)
	})
	if call.Done() {
		t.Fatalf("%s %s returned while it was queued: %+v %v", call.Req.Op, call.Req.Path, call.res, call.err)
	}
}

// mustBlockInKernel is MustBlock where there is no lock table to ask.
func (call *Call) mustBlockInKernel(t testing.TB) {
	t.Helper()
	eventually(t, call.Req.Op+" blocks", func() bool {
		if call.Done() {
			t.Fatalf("%s %s did not wait: %+v %v", call.Req.Op, call.Req.Path, call.res, call.err)
		}
		return call.asleep()
	})
}

// asleep tells whether the client's main thread sleeps in the operation: in a
// system call that is neither its wait for the next request nor the runtime's.
func (call *Call) asleep() bool {
	nr := currentSyscall(call.c.PID)
	return nr >= 0 && nr != unix.SYS_READ && nr != unix.SYS_FUTEX
}

// inSyscall tells whether a thread sleeps in this system call.
func inSyscall(pid, nr int) bool { return currentSyscall(pid) == nr }

// currentSyscall is the number of the system call that a thread sleeps in, -1
// when it runs or is gone.
func currentSyscall(pid int) int {
	first, _, _ := strings.Cut(readProc(pid, "syscall"), " ")
	nr, err := strconv.Atoi(first)
	if err != nil {
		return -1
	}
	return nr
}

// MustWait shows that a program waits for a lock, itself or a child of it.
func (p *Proc) MustWait() {
	p.t.Helper()
	if *plain {
		p.t.Fatal("a plain directory makes nobody wait")
	}
	eventually(p.t, strings.Join(p.Cmd.Args[:1], " ")+" waits", func() bool {
		if p.Done() {
			p.t.Fatalf("%.200q did not wait\n%s%s", p.Cmd.Args, p.Stdout(), p.Stderr())
		}
		queue, _ := p.m.queue()
		return slices.ContainsFunc(queue, func(w WaitingLock) bool {
			return w.PID == p.PID() || processGroup(w.PID) == p.PID()
		})
	})
}

// processGroup is the process group of a process, 0 when it is gone.
func processGroup(pid int) int {
	_, after, _ := strings.Cut(readProc(pid, "stat"), ") ")
	fields := strings.Fields(after)
	if len(fields) < 3 {
		return 0
	}
	group, _ := strconv.Atoi(fields[2])
	return group
}
