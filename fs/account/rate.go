package account

import (
	"sync"
	"time"
)

// Rate bounds how much work each user makes the daemon do. A user may ask for a burst of
// it, and for so much a second in the long run. Its methods may be called from any
// goroutine.
type Rate struct {
	burst     float64
	perSecond float64
	exempt    func(uid uint32) bool

	mu    sync.Mutex // guards what follows
	spent map[uint32]spending
}

// spending is what a user had spent at a time.
type spending struct {
	n  float64
	at time.Time
}

// mostSpenders is from how many users on those are forgotten who have nothing spent.
const mostSpenders = 1024

// NewRate makes a rate. exempt says who has no limit.
func NewRate(burst, perSecond int64, exempt func(uid uint32) bool) *Rate {
	return &Rate{burst: float64(burst), perSecond: float64(perSecond), exempt: exempt, spent: map[uint32]spending{}}
}

// Spend reports whether a user may have n more units of work done now, and notes them if
// so. The last piece may go beyond the burst: what a single request needs is done at
// least now and then, whatever it costs.
func (r *Rate) Spend(uid uint32, n int64, now time.Time) bool {
	if r.exempt(uid) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.left(r.spent[uid], now)
	if left >= r.burst {
		return false
	}
	if len(r.spent) >= mostSpenders {
		for u, s := range r.spent {
			if r.left(s, now) == 0 {
				delete(r.spent, u)
			}
		}
	}
	r.spent[uid] = spending{left + float64(n), now}
	return true
}

// Bounds reports whether a user has a limit.
func (r *Rate) Bounds(uid uint32) bool { return !r.exempt(uid) }

// left is what is still to be worked off.
func (r *Rate) left(s spending, now time.Time) float64 {
	return max(0, s.n-now.Sub(s.at).Seconds()*r.perSecond)
}
