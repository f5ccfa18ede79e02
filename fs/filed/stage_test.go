package filed

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/fs/claimfile"
	"latchfs/fs/ctl"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
	"latchfs/lockmgr/proc"
)

const host = "here"

// A stage has a room with processes that die when the test says so, in virtual time. What
// the room does with locks and files it writes down.
type stage struct {
	t    *testing.T
	room *Room
	done chan struct{}

	mu    sync.Mutex // guards what follows
	procs map[int32]*process
	did   []string
	held  map[*ctl.Claim]lockmgr.Owner
	beats map[*ctl.Claim]time.Time
	deny  error                 // of the next claim
	busy  int                   // removals that fail
	left  map[Place]int         // how often a place was given back
	names map[*ctl.Claim]string // by which the notes call a claim
}

type process struct {
	dead chan struct{}
	end  proc.End
}

func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			t: t, done: make(chan struct{}), procs: map[int32]*process{}, held: map[*ctl.Claim]lockmgr.Owner{},
			beats: map[*ctl.Claim]time.Time{}, left: map[Place]int{}, names: map[*ctl.Claim]string{},
		}
		s.room = New(Config{Engine: s, Locks: s, Procs: s, Host: host, Boot: time.Now().Add(-time.Hour), Done: s.done})
		test(s)
		close(s.done)
	})
}

// owner is a process that was started together with the stage.
func (s *stage) owner(pid int32) lockmgr.Owner {
	return lockmgr.Owner{PID: pid, Start: uint64(time.Hour / time.Second * ticks)}
}

func (s *stage) start(pids ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range pids {
		s.procs[pid] = &process{dead: make(chan struct{})}
	}
}

// end ends a process with a wait status, and lets everybody learn of it.
func (s *stage) end(pid int32, status int) {
	s.mu.Lock()
	p := s.procs[pid]
	delete(s.procs, pid)
	p.end = proc.End{Known: true, Status: status}
	close(p.dead)
	s.mu.Unlock()
	synctest.Wait()
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, fmt.Sprintf(format, args...))
}

// want compares what was done since it was last asked.
func (s *stage) want(when string, want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.did, want) {
		s.t.Errorf("%s:\n got %q\nwant %q", when, s.did, want)
	}
	s.did = nil
}

// caller is a process that asks; the zero one cannot be seen.
type caller struct {
	owner lockmgr.Owner
	up    []lockmgr.Ancestor
}

func (c *caller) TID() uint32                   { return uint32(c.owner.PID) }
func (c *caller) UID() uint32                   { return 0 }
func (c *caller) GID() uint32                   { return 0 }
func (c *caller) Owner() lockmgr.Owner          { return c.owner }
func (c *caller) Foreign() bool                 { return c.owner.PID == 0 }
func (c *caller) Ancestors() []lockmgr.Ancestor { return c.up }

// filing is a version of the claim file "f", written by the first of the processes, each
// the child of the next.
func (s *stage) filing(rule lockfile.Convention, content string, pids ...int32) *Filing {
	f := &Filing{At: "f", Rule: &rule, Target: lockkey.Target{Paths: []string{"f"}}, Made: time.Now(), Content: claimfile.Content{Data: []byte(content)}}
	if rule.Format == lockfile.OwnerDir {
		f.Content = claimfile.Content{Owner: []byte(content), HasOwner: true}
	}
	by := &caller{}
	for i, pid := range pids {
		if i == 0 {
			by.owner = s.owner(pid)
		} else {
			by.up = append(by.up, lockmgr.Ancestor{Owner: s.owner(pid)})
		}
		f.Chain = append(f.Chain, Member{Owner: s.owner(pid)})
	}
	f.By = by
	return f
}

func (s *stage) file(f *Filing) {
	s.t.Helper()
	if err := s.room.File(f); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

func beads(holder string, pid int32) string {
	return record(map[string]any{"holder": holder, "pid": pid, "hostname": host, "started_at": time.Now().Format(time.RFC3339)})
}

func clawdbot(session string, pid int32) string {
	return record(map[string]any{"session_id": session, "pid": pid, "hostname": host, "acquired_at": time.Now().UTC().Format(time.RFC3339), "operation": "work"})
}

func lockV1(request string, beat time.Time) string {
	return record(map[string]any{
		"lock_version": "v1", "lock_name": "n", "request_id": request, "actor": "a", "intent": "i", "intent_version": "1", "host_id": host, "pid": 1,
		"created_at": beat.UTC().Format(time.RFC3339), "last_heartbeat_at": beat.UTC().Format(time.RFC3339), "ttl_seconds": 60,
	})
}

func record(fields map[string]any) string {
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// What the engine does.

func (s *stage) Path(p Place) string { return p.(string) }

func (s *stage) Remove(p Place) error {
	if err := s.room.MayRemove(p); err != nil {
		s.note("may not remove %v", p)
		return err
	}
	s.mu.Lock()
	busy := s.busy > 0
	s.busy--
	s.mu.Unlock()
	if busy {
		s.note("%v is busy", p)
		return errDenied
	}
	s.note("removes %v", p)
	s.room.Gone(p)
	return nil
}

func (s *stage) SettleThefts() {}

func (s *stage) Tell(event string, _ *ctl.Claim, _ lockmgr.Owner, _ map[string]any) {
	s.note("%s", event)
}

func (s *stage) Log(_, line string) { s.note("log: %s", line) }

func (s *stage) MayHold(ctl.Caller, lockmgr.Owner) bool { return true }

func (s *stage) Changed() {}

func (s *stage) Left(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[p]++
}

// What the locks do.

func (s *stage) Stand(st *ctl.Standing) (*ctl.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deny != nil {
		return nil, s.deny
	}
	cl := &ctl.Claim{Actor: st.Actor}
	s.held[cl] = st.By.Owner()
	s.names[cl] = st.Actor
	return cl, nil
}

func (s *stage) GiveBack(cl *ctl.Claim) {
	s.mu.Lock()
	_, held := s.held[cl]
	delete(s.held, cl)
	s.mu.Unlock()
	if held {
		s.note("%s gives back", s.names[cl])
	}
}

func (s *stage) HandTo(cl *ctl.Claim, o lockmgr.Owner, _ lockmgr.Birth) {
	s.mu.Lock()
	s.held[cl] = o
	s.mu.Unlock()
	s.note("%s: %d holds", s.names[cl], o.PID)
}

func (s *stage) Renew(cl *ctl.Claim, now time.Time) {
	s.mu.Lock()
	s.beats[cl] = now
	s.mu.Unlock()
	s.note("%s goes on", s.names[cl])
}

func (s *stage) LastBeat(cl *ctl.Claim) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats[cl]
}

func (s *stage) Expire(cl *ctl.Claim, _ time.Time) { s.note("%s expires", s.names[cl]) }

func (s *stage) Revoke(cl *ctl.Claim) {
	s.note("%s is revoked", s.names[cl])
	s.room.Lost(cl)
}

// What is known of processes.

func (s *stage) Process(pid int32) (proc.Thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.procs[pid] == nil {
		return proc.Thread{}, proc.ErrGone
	}
	return proc.Thread{Owner: s.owner(pid)}, nil
}

func (s *stage) Alive(o lockmgr.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.procs[o.PID] != nil && o == s.owner(o.PID)
}

func (s *stage) WatchEnd(o lockmgr.Owner) (<-chan struct{}, func() proc.End, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[o.PID]
	if p == nil || o != s.owner(o.PID) {
		p = &process{dead: make(chan struct{})}
		close(p.dead)
	}
	return p.dead, func() proc.End { return p.end }, func() {}, nil
}

func (s *stage) Now() lockmgr.Birth { return lockmgr.Birth{} }

var errDenied = errors.New("not allowed")
