package fs

import (
	"math/rand/v2"
	"strings"
)

// Harm that is aimed. A seed seldom comes upon a moment that is short, and in which much can
// break: the one between two writes of a program, the one in which a file with several names
// is half written, the one after a program has found a file and before it opens that. In half
// of the simulations these are met on purpose.

// drawAimed decides whether harm is aimed. It comes from random numbers of its own, as in
// drawLocks.
func drawAimed(seed uint64) int { return rand.New(rand.NewPCG(seed, 9)).IntN(2) }

// sleepsLocked is the number of the step before which somebody who stops does not go on, which
// leaves the others time to do a good deal: mostly before a file is opened that was found, and
// between the last close and RELEASE. mu is held.
func (w *simWorld) sleepsLocked(what string) int {
	if w.hazards.aimed == 0 {
		return 0
	}
	seldom := 8
	if strings.Contains(what, " is about to send OPEN ") || strings.Contains(what, " is about to send RELEASE ") {
		seldom = 2
	}
	if w.aims.IntN(seldom) > 0 {
		return 0
	}
	return w.steps + 5 + w.aims.IntN(60)
}

// awake are those who do not sleep, or all if everybody does.
func (w *simWorld) awake(ready []*simParked) (all []*simParked) {
	for _, x := range ready {
		if x.until <= w.steps {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return ready
	}
	return all
}

// strikes kills a program that has written a part of what it writes, and reports whether it has.
func (w *simWorld) strikes(next *simParked) bool {
	if w.hazards.aimed == 0 || w.hazards.kills == 0 || !strings.Contains(next.what, " is about to send WRITE ") || strings.HasSuffix(next.what, " at 0") {
		return false
	}
	w.mu.Lock()
	misses := w.aims.IntN(6) > 0
	w.mu.Unlock()
	if misses {
		return false
	}
	for _, p := range w.procs.living() {
		if p.String() == who(next.what) && !p.isKilled() {
			w.logf("%s is killed while it writes", p)
			p.kill()
			return true
		}
	}
	return false
}

// strikesLocked reports whether the daemon dies at a step of its disk: where it is about to cut
// a file to whose beginning it has copied a new version. mu is held.
func (d *simDaemon) strikesLocked(step string) bool {
	w, half := d.w, d.last == "copy" && step == "truncate"
	d.last = step
	return half && d.answers && w.hazards.aimed > 0 && w.hazards.crashes > 0 && w.aims.IntN(2) == 0
}

// drawInPlace lets a program make a file longer that has two names, and write it anew, so that
// half of the new version over the old one shows.
func (s *simScript) drawInPlace(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 11))
	if s.hazards.aimed == 0 || s.hazards.crashes == 0 || r.IntN(2) == 0 {
		return
	}
	p := &s.programs[r.IntN(2)] // not the guest, who may only read
	p.lines = append([]string{"ln a b", "log a", "echo b"}, p.lines...)
}
