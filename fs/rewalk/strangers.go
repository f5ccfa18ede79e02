package rewalk

import (
	"slices"
	"sync"
	"time"
)

// Strangers are the callers of other pid namespaces that were told to walk again because
// they had come to a session's shadow. The kernel walks once more, and then nobody may be
// sent on again; but these callers have no thread id by which to tell who comes for the
// second time. So what is known is the name and the session from which somebody was sent
// away: whoever meets another session there soon may be the same.
//
// Until somebody whom nobody knows has opened the file under that name, the file keeps its
// node: no session takes it over, and whoever was sent on finds it there.
type Strangers[P comparable] struct {
	soon time.Duration

	mu  sync.Mutex // guards all
	all []stranger[P]
}

type stranger[P comparable] struct {
	at    P
	from  string // the session's id
	until time.Time
	came  bool // somebody has opened the file since, most likely the one who was sent on
}

// NewStrangers makes an empty one. Whoever was sent on is expected for so long.
func NewStrangers[P comparable](soon time.Duration) *Strangers[P] {
	return &Strangers[P]{soon: soon}
}

// PerhapsRepeated reports whether the caller who comes to a session at a name may have been
// sent on already. If not, it is noted that it will be.
func (s *Strangers[P]) PerhapsRepeated(at P, session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.all = slices.DeleteFunc(s.all, func(x stranger[P]) bool { return now.After(x.until) })
	if slices.ContainsFunc(s.all, func(x stranger[P]) bool { return x.at == at && x.from != session }) {
		return true
	}
	s.all = append(s.all, stranger[P]{at: at, from: session, until: now.Add(s.soon)})
	return false
}

// Any reports whether there may be one at all.
func (s *Strangers[P]) Any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) > 0
}

// Expects reports whether somebody who was sent on may be on its way to a name.
func (s *Strangers[P]) Expects(at P) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(s.all, func(x stranger[P]) bool { return x.at == at && !x.came && now.Before(x.until) })
}

// Arrived notes that a caller whom nobody knows has opened the file under a name.
func (s *Strangers[P]) Arrived(at P) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.all, func(x stranger[P]) bool { return x.at == at && !x.came }); i >= 0 {
		s.all[i].came = true
	}
}
