package lockview

import (
	"fmt"
	"testing"
	"time"

	"latchfs/fs/ctl"
	"latchfs/fs/lockkey"
	"latchfs/fs/readclaim"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

var now = time.Unix(1000, 0)

// tag is the label of a stage's locks.
type tag struct {
	uid    uint32
	claim  *ctl.Claim
	read   *readclaim.Claim
	orphan bool // nobody lives who may have the claim
}

func (tg *tag) UID() uint32                 { return tg.uid }
func (tg *tag) Claim() *ctl.Claim           { return tg.claim }
func (tg *tag) ReadClaim() *readclaim.Claim { return tg.read }

// stage is a view of a real lock table, whose locks a test makes up.
type stage struct {
	View
	t        testing.TB
	orphaned map[*ctl.Claim]bool
	locks    map[any]*lockmgr.Lock // of claims
	ended    []string              // claims
	settled  int
}

func newStage(t testing.TB) *stage {
	s := &stage{t: t, orphaned: map[*ctl.Claim]bool{}, locks: map[any]*lockmgr.Lock{}}
	s.View = View{Table: lockmgr.New(lockmgr.Options{}), Engine: s}
	return s
}

// Record implements Engine: the program of a process is called after its id.
func (s *stage) Record(h *lockmgr.Holder, key string) report.Record {
	r := report.Record{Path: key, State: report.Held, Token: h.Token, Asker: report.Asker{Owner: report.Process{PID: h.Owner.PID, Start: h.Owner.Start}, Program: fmt.Sprint("p", h.Owner.PID)}}
	if name, ok := lockkey.NameOf(lockmgr.Key(key)); ok {
		r.Name, r.Path = name, ""
	}
	return r
}

// Keys implements Engine.
func (s *stage) Keys(t *lockkey.Target) (keys, trees []lockmgr.Key) {
	for _, p := range t.Paths {
		keys = append(keys, lockmgr.Key(p))
	}
	for _, n := range t.Names {
		keys = append(keys, lockkey.Name(n))
	}
	return keys, nil
}

// IsOrphaned implements Engine.
func (s *stage) IsOrphaned(cl *ctl.Claim) bool { return s.orphaned[cl] }

func (s *stage) end(what string, cl any) {
	s.ended = append(s.ended, fmt.Sprint(what, " of ", s.locks[cl].Owner().PID))
	s.Table.Release(s.locks[cl])
}

// Drop implements Engine.
func (s *stage) Drop(cl *ctl.Claim) { s.end("claim", cl) }

// DropRead implements Engine.
func (s *stage) DropRead(cl *readclaim.Claim) { s.end("read", cl) }

// SettleThefts implements Engine.
func (s *stage) SettleThefts(by ctl.Caller) {
	if by != nil {
		s.t.Error("a viewer is no thief")
	}
	s.settled++
}

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid) * 100} }

// A change makes another lock of an exclusive one of user 1.
type change func(r *lockmgr.Request, tg *tag)

func of(uid uint32) change { return func(_ *lockmgr.Request, tg *tag) { tg.uid = uid } }

func shared(r *lockmgr.Request, _ *tag) { r.Mode = lockmgr.Shared }

func claimed(_ *lockmgr.Request, tg *tag) { tg.claim = &ctl.Claim{} }

func tree(r *lockmgr.Request, _ *tag) { r.Keys, r.Trees = nil, r.Keys }

func orphan(_ *lockmgr.Request, tg *tag) { tg.orphan = true }

func toWrite(_ *lockmgr.Request, tg *tag) { tg.read = readclaim.New(readclaim.Reader{}) }

func flock(r *lockmgr.Request, _ *tag) {
	r.Class, r.Client, r.Mode = lockmgr.Flock, uint64(r.Owner.PID), lockmgr.Shared
}

func unlabeled(r *lockmgr.Request, _ *tag) { r.Label = nil }

func leased(r *lockmgr.Request, _ *tag) { r.TTL = 3 * time.Second }

func also(keys ...lockmgr.Key) change {
	return func(r *lockmgr.Request, _ *tag) { r.Keys = append(r.Keys, keys...) }
}

// lock asks for a lock.
func (s *stage) lock(pid int32, key string, is ...change) *lockmgr.Lock {
	s.t.Helper()
	tg := &tag{uid: 1}
	r := lockmgr.Request{Keys: []lockmgr.Key{lockmgr.Key(key)}, Mode: lockmgr.Exclusive, Owner: owner(pid), Label: tg, Now: now}
	for _, c := range is {
		c(&r, tg)
	}
	l, err := s.Table.Acquire(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if tg.claim != nil {
		s.locks[tg.claim], s.orphaned[tg.claim] = l, tg.orphan
	}
	if tg.read != nil {
		s.locks[tg.read] = l
	}
	return l
}

// expire lets the lease of a lock expire.
func (s *stage) expire(l *lockmgr.Lock) {
	for i := range lockmgr.Heartbeats {
		at := now.Add(time.Duration(i+1) * time.Second)
		s.Table.Due(at)
		s.Table.Heartbeat(l, at, false)
	}
}

// group are the records of those who hold a path.
func (s *stage) group(path string) (group []report.Record) {
	for _, r := range s.Held() {
		if r.Path == path {
			group = append(group, r)
		}
	}
	return group
}

// viewer is a process with an ancestor, of a user.
func viewer(uid uint32, pid int32) report.Viewer {
	o, parent := owner(pid), owner(pid-1)
	return report.Viewer{UID: uid, PID: pid, Lineage: []report.Process{{PID: o.PID, Start: o.Start}, {PID: parent.PID, Start: parent.Start}}}
}

func privileged(v report.Viewer) report.Viewer {
	v.Privileged = true
	return v
}
