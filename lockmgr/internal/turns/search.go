package turns

import "slices"

// Queue is the waiters in their order, and who of them depends on whom.
type Queue[W, E any] interface {
	// Next is the waiter behind w; nil behind the last one.
	Next(w *W) *W
	// Depends says why l cannot go on before c does; nil if it can. Nobody depends
	// on itself.
	Depends(l, c *W) *E
}

// Step is one step of a cycle: Waiter depends on the Waiter of the next step, or the
// last one on that of the first.
type Step[W, E any] struct {
	Waiter *W
	Why    *E
}

// Search looks for those on whom a waiter depends. Its memory is used again by the next
// search; the zero Search is ready for use.
type Search[W, E any] struct {
	done  map[*W]bool  // waiters that were met: false while on the path, true in the set
	path  []Step[W, E] // from the waiter asked about to the one being looked at
	set   []*W         // waiters left behind, each after those it depends on
	cycle []Step[W, E] // what was found instead
	queue Queue[W, E]
}

// Gather collects the waiter l and all on whom it depends, as far as they stand behind
// w, which stands before l, each after those on whom it depends itself. Put before w in
// this order, they depend on nobody behind them. If that is impossible there is no set:
// there is a cycle of those who depend on each other; or none, because l depends on w.
// With must, w depends on l, so that this is a cycle, too.
func (s *Search[W, E]) Gather(q Queue[W, E], l, w *W, must bool) (set []*W, cycle []Step[W, E]) {
	if s.done == nil {
		s.done = make(map[*W]bool)
	}
	clear(s.done)
	s.queue, s.path, s.set, s.cycle = q, s.path[:0], s.set[:0], nil
	if s.visit(l, w) {
		return s.set, nil
	}
	if s.cycle == nil && must {
		s.cycle = append(s.path, Step[W, E]{w, q.Depends(w, l)})
	}
	return nil, s.cycle
}

func (s *Search[W, E]) visit(l, w *W) bool {
	s.done[l] = false
	for c := w; c != nil; c = s.queue.Next(c) {
		done, met := s.done[c]
		if done {
			continue
		}
		why := s.queue.Depends(l, c)
		if why == nil {
			continue
		}
		s.path = append(s.path, Step[W, E]{l, why})
		if met {
			i := slices.IndexFunc(s.path, func(e Step[W, E]) bool { return e.Waiter == c })
			s.cycle = s.path[i:]
			return false
		}
		if c == w || !s.visit(c, w) {
			return false
		}
		s.path = s.path[:len(s.path)-1]
	}
	s.done[l] = true
	s.set = append(s.set, l)
	return true
}
