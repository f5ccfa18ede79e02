package fs

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// cluster is what several daemons share: which of them may give locks on which key.
type cluster struct {
	mu    sync.Mutex
	leads map[lockmgr.Key]*member
	all   []*member
}

// member is the lock authority of one daemon of a cluster: a lock table in which a foreign
// owner has what another member leads.
type member struct {
	*lockmgr.Table
	of     *cluster
	others map[lockmgr.Key]*lockmgr.Lock // the foreign owner's
}

// elsewhere is the owner of what another member leads.
var elsewhere = lockmgr.Owner{PID: 0, Start: 1}

func (c *cluster) join(first uint64) *member {
	m := &member{Table: lockmgr.New(lockmgr.Options{FirstToken: first}), of: c, others: map[lockmgr.Key]*lockmgr.Lock{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, m)
	return m
}

// Acquire asks for a lock after it has asked for the keys. Those with "//" before them are
// the daemon's own.
func (m *member) Acquire(r lockmgr.Request) (*lockmgr.Lock, error) {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	for _, k := range r.Keys {
		if strings.HasPrefix(string(k), "//") {
			continue
		}
		if lead := m.of.leads[k]; lead == nil {
			m.of.leads[k] = m
		} else if lead != m && m.others[k] == nil {
			l, err := m.Table.Acquire(lockmgr.Request{Keys: []lockmgr.Key{k}, Mode: lockmgr.Exclusive, Owner: elsewhere})
			if err != nil {
				return nil, err
			}
			m.others[k] = l
		}
	}
	l, err := m.Table.Acquire(r)
	if err != nil {
		m.letGoLocked(r.Keys)
	}
	return l, err
}

// Release gives a lock back, and then the keys that nobody wants any more.
func (m *member) Release(l *lockmgr.Lock) {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	keys := l.Keys()
	m.Table.Release(l)
	m.letGoLocked(keys)
}

func (m *member) letGoLocked(keys []lockmgr.Key) {
	for _, k := range keys {
		if m.of.leads[k] != m || len(m.Table.Holders([]lockmgr.Key{k}, nil)) > 0 {
			continue
		}
		delete(m.of.leads, k)
		for _, o := range m.of.all {
			if l := o.others[k]; l != nil && m.of.leads[k] == nil {
				m.of.leads[k] = o
				delete(o.others, k)
				o.Table.Release(l)
			}
		}
	}
}

// An authority that several daemons share takes the place of the lock table: what a process
// of another daemon has locked nobody writes here, and whoever waits for it gets it when
// that one gives it back; and the other way round.
func TestSharedAuthority(t *testing.T) {
	c := &cluster{leads: map[lockmgr.Key]*member{}}
	far := c.join(1)
	r, _ := unmountedWith(t, "", func(first uint64) lockmgr.Authority { return c.join(first) })
	r.replace("old")
	id := r.lookup("f")
	ask := lockmgr.Request{Keys: []lockmgr.Key{"f"}, Mode: lockmgr.Exclusive, Owner: lockmgr.Owner{PID: 7, Start: 7}}
	theirs, err := far.Acquire(ask)
	if err != nil {
		t.Fatal(err)
	}
	if _, st := r.open(id, unix.O_RDWR|unix.O_NONBLOCK); st != unix.EAGAIN {
		t.Errorf("while it is locked elsewhere: %v, want EAGAIN", st)
	}
	if held := r.f.view.source.Held(); len(held) != 1 || held[0].Path != "f" {
		t.Errorf("shown as held are %+v", held)
	}
	opened := make(chan uint64)
	go func() {
		fh, st := r.open(id, unix.O_RDWR)
		if st != 0 {
			t.Errorf("whoever waits for it: %v", st)
		}
		opened <- fh
	}()
	for {
		if _, waiting := r.f.rules.table.Len(); waiting == 1 {
			break
		}
		select {
		case <-opened:
			t.Fatal("it was opened while it was locked elsewhere")
		case <-time.After(time.Millisecond):
		}
	}
	far.Release(theirs)
	fh := <-opened
	ask.NoWait = true
	if _, err := far.Acquire(ask); !errors.Is(err, lockmgr.ErrWouldBlock) {
		t.Errorf("while it is written here: %v, want %v", err, lockmgr.ErrWouldBlock)
	}
	ask.NoWait = false
	if theirs, err = far.Acquire(ask); err != nil {
		t.Fatal(err)
	} else if theirs.Held() {
		t.Error("it is locked while it is written here")
	}
	r.write(id, fh, 0, "new")
	r.close(id, fh)
	if err := theirs.Wait(t.Context()); err != nil {
		t.Errorf("when it has been written: %v", err)
	}
	r.want("at the end", "new", map[string]int{"commit": 1})
	far.Release(theirs)
}
