package fs

import (
	"strings"
	"time"
)

// The turns that a test says: see simOptions.turns.

// turnOf is who goes on if the test says that; nil if it has said that something happens.
func (w *simWorld) turnOf(ready []*simParked) *simParked {
	for len(w.opts.turns) > 0 {
		turn := w.opts.turns[0]
		if w.happens(turn) {
			w.opts.turns = w.opts.turns[1:]
			return nil
		}
		name, until, _ := strings.Cut(turn, " until ")
		name, _, _ = strings.Cut(name, " ")
		for _, x := range ready {
			if (strings.HasPrefix(x.what, name+"[") || strings.HasPrefix(x.what, name+" ")) && (until == "" || !strings.Contains(x.what, until)) {
				return x
			}
		}
		w.opts.turns = w.opts.turns[1:]
	}
	for _, x := range ready {
		if who(x.what) == w.last {
			return x
		}
	}
	return ready[0]
}

// happens does what a turn says, and reports whether that is something else than who goes on.
func (w *simWorld) happens(turn string) bool {
	what, of, _ := strings.Cut(turn, " ")
	switch {
	case what == "kill":
		w.killNamed(of)
	case what == "crash":
		w.crashAt(strings.TrimPrefix(of, "at "))
	case what == "cut":
		w.powerless = true
		w.crashAt(strings.TrimPrefix(of, "at "))
	case what == "fault":
		w.failAt(strings.TrimPrefix(of, "at "))
	case turn == "forget all":
		w.kernel.forgetNames()
	case what == "forget":
		w.kernel.forgetName(of)
	case of == "pass":
		d, err := time.ParseDuration(what)
		if err != nil {
			panic(err)
		}
		time.Sleep(d)
	default:
		return false
	}
	return true
}

func (w *simWorld) killNamed(name string) {
	for _, p := range w.procs.living() {
		if p.comm == name {
			w.logf("%s is killed", p)
			p.kill()
		}
	}
}
