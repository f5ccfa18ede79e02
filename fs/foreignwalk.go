package fs

import (
	"slices"
	"sync"
	"time"
)

// foreignWalks are the callers of other pid namespaces that were told to walk again
// because they had come to a session's shadow. The kernel walks once more, and then
// nobody may be sent on again; but these callers have no thread id by which to tell
// who comes for the second time. So what is known is the name and the session from
// which somebody was sent away: who meets another session there soon may be the same.
type foreignWalks struct {
	mu  sync.Mutex
	all []foreignWalk
}

type foreignWalk struct {
	at    dkey
	from  string // the session's id
	until time.Time
}

// perhapsRepeated reports whether who comes to a session at a name may have been sent
// on already. If not, it is noted that it will be.
func (ws *foreignWalks) perhapsRepeated(at dkey, session string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	ws.all = slices.DeleteFunc(ws.all, func(w foreignWalk) bool { return now.After(w.until) })
	if slices.ContainsFunc(ws.all, func(w foreignWalk) bool { return w.at == at && w.from != session }) {
		return true
	}
	ws.all = append(ws.all, foreignWalk{at, session, now.Add(staleGrace)})
	return false
}
