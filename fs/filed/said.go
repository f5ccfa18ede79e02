package filed

import (
	"time"

	"latchfs/fs/ctl"
)

// Said is what the record of a claim says of it, for people and for the programs of its
// system. It is the word of a user. What it does not say is empty.
type Said struct {
	Holder string // the session, the request, the owner or the program
	Actor  string // who that is, where the record tells it from the holder
	Host   string
	Since  time.Time // never in the future
	Beat   time.Time // the last heartbeat; never in the future

	// Of a stale claim.
	Reason     string
	StaleSince time.Time // zero where time has not made it stale
}

// Said returns what the record of a claim says, and whether the claim has one that can be
// understood. A claim that is stale is judged anew if that is asked for.
func (r *Room) Said(held *ctl.Claim, stale bool) (said Said, ok bool) {
	if r.Count() == 0 {
		return said, false
	}
	now := time.Now()
	past := func(t time.Time) time.Time {
		if t.After(now) {
			return time.Time{}
		}
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.of[held]
	if cl == nil || cl.rec == nil {
		return said, false
	}
	said = Said{Holder: cl.rec.Holder, Actor: cl.rec.Actor, Host: cl.rec.Host, Since: past(cl.rec.Since), Beat: past(cl.rec.Beat)}
	if stale {
		v := r.judgeLocked(cl)
		said.Reason, said.StaleSince = v.Reason, v.StaleSince()
	}
	return said, true
}
