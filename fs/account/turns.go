package account

import (
	"slices"
	"sync"
	"time"
)

// Turns keeps one user's requests from taking every processor while another user's
// want one: of a user beside whom another one is active so many requests run at once,
// and the next one waits until one of them ends.
//
// A request counts as running for as long as another one has patience, and no longer:
// one that takes more time most likely waits, for a lock or for a disk, and takes no
// processor. So no request waits longer than that for its turn, whatever the others
// wait for.
type Turns struct {
	places   int
	patience time.Duration
	exempt   func(uid uint32) bool
	presence *Presence

	mu    sync.Mutex // guards what follows
	users map[uint32]*requests
}

// Presence is who has made a request lately, of whatever kind.
type Presence struct {
	mu   sync.Mutex // guards what follows
	last [2]arrival // the latest request, and the latest one of another user
}

// lately is how long a user counts as active after a request: a program that saves a
// file makes the next one sooner.
const lately = 100 * time.Millisecond

type arrival struct {
	uid uint32
	at  time.Time
}

// note notes a user's request and reports whether another user is active.
func (p *Presence) note(uid uint32, now time.Time) (beside bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[0].uid != uid {
		p.last[1] = p.last[0]
	}
	p.last[0] = arrival{uid, now}
	other := p.last[1]
	return !other.at.IsZero() && now.Sub(other.at) < lately
}

// requests are those of one user, in the order in which they came.
type requests struct {
	running []*Turn // those that still count, and perhaps some that do not
	waiting []*Turn
}

// Turn is one request's. The zero of *Turn is the turn of a request that does not count.
type Turn struct {
	t     *Turns
	uid   uint32
	begun time.Time     // zero while it waits
	ready chan struct{} // closed when it has begun; nil if it did not wait
}

// NewTurns lets so many requests of one user run at once beside another user who is
// present, and the next one wait for that long. Users who are exempt never wait.
func NewTurns(places int, patience time.Duration, presence *Presence, exempt func(uid uint32) bool) *Turns {
	return &Turns{places: places, patience: patience, presence: presence, exempt: exempt, users: map[uint32]*requests{}}
}

// Take returns when it is a request's turn. Its End has to be called.
func (t *Turns) Take(uid uint32) *Turn { return t.take(uid, true) }

// Jump is Take for a request that may not wait, because other users wait for it: it
// runs at once, and counts among those that run.
func (t *Turns) Jump(uid uint32) *Turn { return t.take(uid, false) }

func (t *Turns) take(uid uint32, waits bool) *Turn {
	now := time.Now()
	beside := t.presence.note(uid, now)
	if t.exempt(uid) {
		return nil
	}
	t.mu.Lock()
	u := t.users[uid]
	if u == nil {
		u = &requests{}
		t.users[uid] = u
	}
	r := &Turn{t: t, uid: uid}
	if !waits || !beside || !t.isFullLocked(u, now) {
		u.begin(r, now)
		t.mu.Unlock()
		return r
	}
	r.ready = make(chan struct{})
	u.waiting = append(u.waiting, r)
	t.mu.Unlock()
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case <-r.ready:
		return r
	case now = <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.begun.IsZero() {
		u.waiting = slices.DeleteFunc(u.waiting, func(o *Turn) bool { return o == r })
		u.begin(r, now)
	}
	return r
}

// End lets the user's next request run.
func (r *Turn) End() {
	if r == nil {
		return
	}
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[r.uid]
	if u == nil {
		return // it has not counted for long
	}
	u.running = slices.DeleteFunc(u.running, func(o *Turn) bool { return o == r })
	if len(u.waiting) > 0 {
		if now := time.Now(); !t.isFullLocked(u, now) {
			next := u.waiting[0]
			u.waiting = slices.Delete(u.waiting, 0, 1)
			u.begin(next, now)
			close(next.ready)
		}
	}
	if len(u.running)+len(u.waiting) == 0 {
		delete(t.users, r.uid)
	}
}

func (u *requests) begin(r *Turn, now time.Time) {
	r.begun = now
	u.running = append(u.running, r)
}

// isFullLocked reports whether all places of a user are taken, and forgets the requests
// that do not count any more.
func (t *Turns) isFullLocked(u *requests, now time.Time) bool {
	u.running = slices.DeleteFunc(u.running, func(r *Turn) bool { return now.Sub(r.begun) >= t.patience })
	return len(u.running) >= t.places
}
