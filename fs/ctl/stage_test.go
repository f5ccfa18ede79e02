package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/fs/account"
	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// stage is a server with a real lock table, over processes and files that a test makes
// up. It runs in a bubble of testing/synctest: time is virtual.
type stage struct {
	*Server
	procs map[string]*process
	files map[string]file
	talks map[string]*Conversation
	given map[*Conversation]map[int32]int // descriptors of it that processes have

	mu     sync.Mutex // guards what follows, which goroutines of the server change
	tick   uint64
	events []string
	txns   []*txn // that have begun
	missed int    // how many locks will turn out to be on other keys

	thefts   sync.Mutex   // held while thefts are settled
	paths    sync.RWMutex // HoldPaths
	draining chan struct{}
	done     chan struct{}

	stopping bool
	tokens   error                        // what CoverToken answers
	outcome  outcome                      // of the next commit
	onBegin  func()                       // is called by BeginTxn
	atWork   func(h *lockmgr.Holder) bool // what a holder says that is to be robbed
	kept     map[string][]uint32
	left     map[string]Unerased
}

// file is whose a file is, and whether others may read it.
type file struct {
	uid    uint32
	shared bool
	ttl    time.Duration
}

func newStage() *stage {
	s := &stage{
		procs: map[string]*process{}, files: map[string]file{}, talks: map[string]*Conversation{},
		given: map[*Conversation]map[int32]int{}, kept: map[string][]uint32{}, left: map[string]Unerased{},
		draining: make(chan struct{}), done: make(chan struct{}),
	}
	s.Server = New(Config{
		Engine: s, Procs: stageProcs{s}, Table: lockmgr.New(lockmgr.Options{}), Views: s, Epoch: "e",
		Book:     account.New(account.Limits{User: 64 << 10, Share: 1 << 10, Total: 64 << 10}, func(uid uint32) bool { return uid == 0 }),
		Defaults: policy.Settings{Wait: 5 * time.Second, OnStale: policy.StealStale}, ActorEnv: []string{"AGENT"},
		Draining: s.draining, Done: s.done,
	})
	return s
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

// next is the next tick.
func (s *stage) next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick++
	return s.tick
}

// label is what the lock table has beside each lock; claim is nil of an open's.
type label struct {
	by    *process
	claim *Claim
}

func (lb *label) UID() uint32   { return lb.by.uid }
func (lb *label) Claim() *Claim { return lb.claim }

// MayLock implements Engine: whoever may only read a file may share a lock on it.
func (s *stage) MayLock(c Caller, t *lockkey.Target, m lockmgr.Mode) (weak bool, err error) {
	for _, p := range slices.Concat(t.Paths, t.Trees) {
		f, known := s.files[p]
		switch {
		case c.UID() == 0 || !known || f.uid == c.UID():
		case f.shared && m == lockmgr.Shared:
			weak = true
		default:
			return false, fmt.Errorf("%q: permission denied", p)
		}
	}
	return weak, nil
}

// Owns implements Engine.
func (s *stage) Owns(c Caller, path string) bool { return s.files[path].uid == c.UID() }

// Reserved implements Engine.
func (s *stage) Reserved(name string, inRoot bool) bool {
	return strings.HasPrefix(name, ".latchfs-") || inRoot && name == ".locks"
}

// Settings implements Engine.
func (s *stage) Settings(path string) policy.Settings {
	return policy.Settings{Wait: s.Defaults.Wait, TTL: s.files[path].ttl}
}

// Keys implements Engine.
func (s *stage) Keys(t *lockkey.Target) (keys, trees []lockmgr.Key) {
	for _, p := range t.Paths {
		keys = append(keys, lockmgr.Key(p))
	}
	for _, n := range t.Names {
		keys = append(keys, lockkey.Name(n))
	}
	for _, p := range t.Trees {
		trees = append(trees, lockmgr.Key(p))
	}
	return keys, trees
}

// NameKeys implements Engine.
func (s *stage) NameKeys(path string) []lockmgr.Key { return []lockmgr.Key{lockmgr.Key(path)} }

// HoldPaths implements Engine.
func (s *stage) HoldPaths() (release func()) {
	s.paths.RLock()
	return s.paths.RUnlock
}

// Acquire implements Engine.
func (s *stage) MayClaim(Caller, *lockkey.Target) error { return nil }

func (s *stage) IsOrphaned(*Claim) bool { return false }

func (s *stage) Take(a *Ask) (*lockmgr.Lock, error) { return s.Acquire(a) }

func (s *stage) Acquire(a *Ask) (*lockmgr.Lock, error) {
	defer s.HoldPaths()()
	t := a.Claim.Target()
	keys, trees := s.Keys(&t)
	l, err := s.Table.Acquire(lockmgr.Request{
		Keys: keys, Trees: trees, Mode: a.Mode, Owner: a.Owner, Lineage: a.Lineage, Since: lockmgr.Birth{Tick: s.next()},
		NoWait: a.Wait == 0, Gate: true, Weak: a.Weak, TTL: a.TTL, Yields: a.Yields, Steal: a.Steal, Inbox: a.Inbox,
		Now: time.Now(), Label: &label{a.Claim.By.(*process), a.Claim},
	})
	if err == nil {
		s.Claims.Enter(a.Claim, l)
	}
	return l, err
}

// open takes a lock as an open of a file does, for ever.
func (s *stage) open(p *process, path string, ttl time.Duration) (*lockmgr.Lock, error) {
	return s.Table.Acquire(lockmgr.Request{
		Keys: []lockmgr.Key{lockmgr.Key(path)}, Mode: lockmgr.Exclusive, Owner: p.owner, Lineage: p.Ancestors(),
		Since: lockmgr.Birth{Tick: s.next()}, NoWait: true, TTL: ttl, Now: time.Now(), Label: &label{by: p},
	})
}

// Covers implements Engine.
func (s *stage) Covers(*lockmgr.Lock, *Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed > 0 {
		s.missed--
		return false
	}
	return true
}

// Join implements Engine.
func (s *stage) Join(c Caller) *lockmgr.Ancestor {
	cl := s.Claims.ByID(c.(*process).env[control.SessionEnv])
	if cl == nil {
		return nil
	}
	s.Claims.Note(cl, c.Owner())
	return &lockmgr.Ancestor{Owner: s.Claims.LockOf(cl).Owner()}
}

// Fenced implements Engine.
func (s *stage) Fenced(c Caller, keys []lockmgr.Key) error {
	for _, h := range s.Claims.Stolen(keys) {
		if c.(*process).descendsFrom(&h) {
			return &denied.Fenced{Lock: labelOf(&h).Claim().ID()}
		}
	}
	return nil
}

// SettleThefts implements Engine.
func (s *stage) SettleThefts(by Caller) { s.Steal(by, func() {}) }

// Steal implements Engine.
func (s *stage) Steal(by Caller, take func()) {
	s.thefts.Lock()
	defer s.thefts.Unlock()
	take()
	for _, h := range s.Table.Stolen() {
		thief := "the next in the queue"
		if by != nil {
			thief = by.(*process).name
		}
		s.note("stolen from %s by %s", s.byPID(h.Owner.PID).name, thief)
		if cl := labelOf(&h).Claim(); cl != nil {
			s.Claims.Fence(cl, &h)
		}
	}
}

// Revoke implements Engine.
func (s *stage) Revoke(h *lockmgr.Holder) error {
	if s.atWork != nil && s.atWork(h) {
		return ErrAtWork
	}
	return s.Table.Revoke(h.Lock)
}

// CoverToken implements Engine.
func (s *stage) CoverToken(uint64) error { return s.tokens }

// txn is a transaction that says what becomes of it.
type txn struct {
	s    *stage
	cl   *Claim
	over atomic.Bool
}

// outcome is what a commit comes to.
type outcome struct {
	refused bool
	err     error
}

// IsInTxn implements Engine.
func (s *stage) IsInTxn(c Caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.txns, func(t *txn) bool { return t.cl.By == c })
}

// BeginTxn implements Engine.
func (s *stage) BeginTxn(cl *Claim) {
	t := &txn{s: s, cl: cl}
	s.mu.Lock()
	s.txns = append(s.txns, t)
	s.mu.Unlock()
	if s.onBegin != nil {
		s.onBegin()
	}
	cl.SetTxn(t)
}

func (t *txn) Token() uint64 { return t.s.Claims.LockOf(t.cl).Token() }

func (t *txn) Commit() (done bool, err error) {
	if t.over.Swap(true) {
		return false, errors.New("it is over")
	}
	t.s.note("committed: %v", !t.s.outcome.refused)
	return !t.s.outcome.refused, t.s.outcome.err
}

func (t *txn) Rollback(reason string) {
	if !t.over.Swap(true) {
		t.s.note("rolled back: %s", reason)
	}
}

func (t *txn) Forget() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.txns = slices.DeleteFunc(t.s.txns, func(x *txn) bool { return x == t })
}

// Viewer implements Engine.
func (s *stage) Viewer(c Caller) report.Viewer {
	return report.Viewer{UID: c.UID(), PID: c.Owner().PID, Privileged: c.UID() == 0}
}

// Held implements Views.
func (s *stage) Held() (list []report.Record) {
	snap := s.Table.Snapshot()
	for i := range snap.Held {
		list = append(list, s.Record(&snap.Held[i], lockkey.Shown(&snap.Held[i])))
	}
	return list
}

// Sight implements Views: nobody but root knows of what is in the directory hidden.
func (s *stage) Sight(v report.Viewer) report.Sight {
	if v.Privileged {
		return nil
	}
	return hides("hidden")
}

type hides string

func (h hides) Sees(path string, _ uint32) bool { return !strings.HasPrefix(path, string(h)+"/") }
func (hides) Stands() bool                      { return true }

// Record implements Engine.
func (s *stage) Record(h *lockmgr.Holder, key string) report.Record {
	r := report.Record{
		Path: key, State: report.Held, Mode: h.Mode.String(), Class: h.Class.String(), Asker: report.Asker{Host: "here", Owner: report.Process{PID: h.Owner.PID, Start: h.Owner.Start}}, Token: h.Token, Since: h.Now,
		TTL: h.TTL, Stale: h.Stale, LastSeen: h.Beat, Tree: slices.Contains(h.Trees, lockmgr.Key(key)),
	}
	if name, ok := lockkey.NameOf(lockmgr.Key(key)); ok {
		r.Name, r.Path = name, ""
	}
	lb := h.Label.(*label)
	r.Program, r.UID, r.Operation = lb.by.name, lb.by.uid, "open"
	if cl := lb.claim; cl != nil {
		r.Operation, r.Session, r.Actor = cl.Op, cl.ID(), cl.Actor
	}
	return r
}

// Refused implements Engine.
func (s *stage) Refused(r *Refusal) {
	by := "nobody"
	if r.Holder != nil {
		by = r.Holder.Program
	}
	s.note("refused %s%s to %s because of %s: errno %d, waited %v, %q, %q",
		r.Path, r.Name, r.By.(*process).name, by, int(r.Errno), r.Wait, r.Reason, r.Full)
}

// Tell implements Engine.
func (s *stage) Tell(event string, cl *Claim, o lockmgr.Owner, detail map[string]any) {
	var more bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(detail)) {
		fmt.Fprintf(&more, " %s=%v", k, detail[k])
	}
	s.note("%s of %s for %s%s", event, s.byPID(o.PID).name, cl.By.(*process).name, more.String())
}

// TellLabel implements Engine.
func (s *stage) TellLabel(o lockmgr.Owner, name string, uid uint32) {
	s.note("label %q of %s from user %d", name, s.byPID(o.PID).name, uid)
}

// Erase implements Engine; s.kept has the users of what is kept of each path.
func (s *stage) Erase(_ Caller, path string, version uint64, mine func(uid uint32) bool) (n Erased, err error) {
	for i, uid := range s.kept[path] {
		if (version == 0 || version == uint64(i+1)) && mine(uid) {
			n.Versions++
			n.Bytes += 10
		}
	}
	if path == "bad" {
		err = errors.New("input/output error")
	}
	return n, err
}

// Unerased implements Engine: s.left has what there is besides.
func (s *stage) Unerased(_ report.Viewer, path string, version uint64) Unerased {
	left := s.left[path]
	left.Known = version > 0 && version <= uint64(len(s.kept[path]))+1
	left.Current = version == uint64(len(s.kept[path]))+1
	return left
}

// Pin implements Engine; s.kept has the users of what is kept of each path.
func (s *stage) Pin(v report.Viewer, path string, version uint64) (release func(), ok bool) {
	kept := s.kept[path]
	if version > uint64(len(kept)) || !v.Privileged && kept[version-1] != v.UID {
		return nil, false
	}
	s.note("pinned version %d of %s", version, path)
	return func() { s.note("version %d of %s is not pinned any more", version, path) }, true
}

// IsStopping implements Engine.
func (s *stage) IsStopping() bool { return s.stopping }

// Notice implements Engine.
func (s *stage) Notice() string { return "the mount is shutting down" }
