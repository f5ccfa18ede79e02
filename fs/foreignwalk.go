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
//
// Until somebody whom nobody knows has opened the file under that name, the file keeps
// its node: no session takes it over, and whoever was sent on finds it there.
type foreignWalks struct {
	mu  sync.Mutex // guards all
	all []foreignWalk
}

type foreignWalk struct {
	at    dkey
	from  string // the session's id
	until time.Time
	came  bool // somebody has opened the file since, most likely who was sent on
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
	ws.all = append(ws.all, foreignWalk{at: at, from: session, until: now.Add(strayedWait)})
	return false
}

// any reports whether there may be one at all.
func (ws *foreignWalks) any() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) > 0
}

// expects reports whether somebody who was sent on may be on its way to a name.
func (ws *foreignWalks) expects(at dkey) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(ws.all, func(w foreignWalk) bool { return w.at == at && !w.came && now.Before(w.until) })
}

// arrived notes that a caller whom nobody knows has opened the file under a name.
func (ws *foreignWalks) arrived(at dkey) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if i := slices.IndexFunc(ws.all, func(w foreignWalk) bool { return w.at == at && !w.came }); i >= 0 {
		ws.all[i].came = true
	}
}
