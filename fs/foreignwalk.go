package fs

import (
	"slices"
	"sync"
	"time"
)

// foreignWalks are the callers of other pid namespaces that were told to walk again
// because they had come to a session's shadow. The kernel walks once more, and then
// nobody may be sent on again; but these callers have no thread id by which to tell
// who comes for the second time. So each is known by the name and by the session
// from which it was sent away: who meets another session there soon is taken for one.
type foreignWalks struct {
	mu  sync.Mutex
	all []foreignWalk
}

type foreignWalk struct {
	at    dkey
	from  string // the session's id
	until time.Time
}

// repeated reports whether who comes to a session at a name was sent on already. If
// not, it is noted that it will be.
func (ws *foreignWalks) repeated(at dkey, session string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	ws.all = slices.DeleteFunc(ws.all, func(w foreignWalk) bool { return now.After(w.until) })
	i := slices.IndexFunc(ws.all, func(w foreignWalk) bool { return w.at == at && w.from != session })
	if i >= 0 {
		ws.all = slices.Delete(ws.all, i, i+1)
		return true
	}
	ws.all = append(ws.all, foreignWalk{at, session, now.Add(staleGrace)})
	return false
}

// arrived notes that somebody has opened what the name leads to: most likely who was
// sent on first.
func (ws *foreignWalks) arrived(at dkey) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if i := slices.IndexFunc(ws.all, func(w foreignWalk) bool { return w.at == at }); i >= 0 {
		ws.all = slices.Delete(ws.all, i, i+1)
	}
}
