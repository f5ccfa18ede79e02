package knowledge

import (
	"slices"
	"time"

	"latchfs/lockmgr"
)

// A Use is a descriptor through which a file is appended to: its processes need not have read
// the file, and mean the version that was there when they last used the descriptor.
type Use struct {
	At       time.Time
	Dev, Ino uint64          // of the file that the key, or another one, held then
	By       []lockmgr.Owner // the process that opened it, and others that use it
}

// hasMoved reports whether the change at i has brought the used file to the key: it was renamed.
func (u *Use) hasMoved(changes []Change, i int) bool {
	is := func(s Stamp) bool { return s.Dev == u.Dev && s.Ino == u.Ino }
	return is(changes[i].Stamp) && (i == 0 || !is(changes[i-1].Stamp))
}

// Since says what a use knows of key, which holds the version stamp now. It is stale if
// another process than those of the use and their descendants has saved the file since. What
// was appended to the file, or changed by nobody knows whom, does not count: of the one only
// those hear that have read the file, and of the other nobody where none has.
func (t *Table) Since(now time.Time, key Key, stamp Stamp, u *Use) Basis {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil || len(u.By) == 0 {
		return Basis{}
	}
	if e.current().Stamp != stamp {
		t.counted(key, e, func() { e.arrive(now, t.fade, stamp) })
	}
	b := e.since(now, u)
	b.Key = key
	return b
}

func (x *file) since(now time.Time, u *Use) Basis {
	b := Basis{Known: true, Used: true, Current: x.current().Number, By: u.By[0], At: u.At}
	for i := range x.changes {
		c := &x.changes[i]
		if !c.Author.Time.After(u.At) || u.hasMoved(x.changes, i) {
			b.Version, b.Stamp, b.Stale, b.Since = c.Number, c.Stamp, false, nil
			continue
		}
		switch {
		case c.added || c.Author.isUnknown():
		case slices.ContainsFunc(u.By, c.madeBy):
			b.Stale, b.Since = false, nil // it has replaced what was there, whosever that was
		default:
			b.Stale, b.Newer, b.Since = true, *c, append(b.Since, *c)
		}
	}
	if !b.Stale {
		return Basis{Current: b.Current}
	}
	b.Insists, b.ForAnother = x.insists(now, &b)
	return b
}

// Track lets what becomes of key be remembered from now on, although nobody has read it.
// stamp is the version that it holds.
func (t *Table) Track(key Key, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.use(key) == nil {
		e := t.make(key, stamp)
		t.counted(key, e, func() {})
	}
}
