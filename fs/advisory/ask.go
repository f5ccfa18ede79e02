package advisory

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// A Request is one flock(2) or fcntl(2).
type Request struct {
	File  File
	By    Caller
	Path  string // of the file, for messages
	Class lockmgr.Class
	Mode  lockmgr.Mode
	// Number is that by which the kernel knows the process or the open file, and Range
	// which bytes; both of class Posix alone: a flock is of the whole file.
	Number uint64
	Range  lockmgr.Range

	NoWait bool            // it does not wait
	Cancel <-chan struct{} // closed when a signal comes
}

// client is whom the lock table is to give the lock.
func (q *Request) client() Client {
	if q.Class == lockmgr.Flock {
		return Client{lockmgr.Flock, q.File.ID()}
	}
	return Client{q.Class, q.Number}
}

// An Ask is a request as it is asked of the lock table.
type Ask struct {
	Request
	Client Client // whom the lock table is to give the lock
	Weak   bool   // it keeps out other lockers alone, and not writers that do not lock
	// Owner is the process that is to own the lock in place of the caller's, with its
	// ancestors; nil: the caller's does.
	Owner   *lockmgr.Owner
	Lineage []lockmgr.Ancestor
}

func (r *Room) ask(q *Request) *Ask {
	a := &Ask{Request: *q, Client: q.client()}
	if q.Class == lockmgr.Flock {
		a.attribute()
	}
	a.Weak = !r.mayKeepOut(q) || q.Class == lockmgr.Flock && !r.mayStandFor(q)
	return a
}

// attribute gives a flock to the process to which it belongs: flock(1) locks a descriptor of the
// script that calls it. Going up from the caller, that is the last ancestor before the first
// one that does not have the file open.
func (a *Ask) attribute() {
	if a.By.Foreign() {
		return
	}
	up := a.By.Ancestors()
	for i, anc := range up {
		if !a.isOpenIn(anc.Owner.PID) {
			return
		}
		a.Owner, a.Lineage = &anc.Owner, up[i+1:]
	}
}

// asks is how often isOpenIn asks while it gets an error: on a busy machine an answer may come
// too late. A shell to which its own lock was not given would wait for it.
const asks = 4

// isOpenIn reports whether a look shows that a process has the file open.
func (a *Ask) isOpenIn(pid int32) bool {
	for range asks {
		if n, err := a.File.Opens(pid); err == nil {
			return n > 0
		}
	}
	return false
}

// mayKeepOut reports whether a lock binds more than other lockers: the caller may write the
// file, or was given a descriptor to write it.
func (r *Room) mayKeepOut(q *Request) bool {
	return q.By.UID() == 0 || q.File.IsWritable() || r.c.Engine.MayWrite(q.By, q.File)
}

// mayStandFor reports whether a flock that stands for another file binds more than other
// lockers: the caller may lock that one.
func (r *Room) mayStandFor(q *Request) bool {
	if q.By.UID() == 0 || !r.c.Policy.HasClaimFiles() {
		return true
	}
	is := q.File.Standing()
	path, ok := r.standsFor(&is)
	return !ok || r.c.Engine.MayClaim(q.By, path)
}

// Test returns a holder that keeps a lock from being granted (F_GETLK), nil if there is none. Through
// a descriptor for reading it is one that locks as well: some programs ask before they read
// (Samba does), and a writer keeps no reader out.
func (r *Room) Test(q *Request) *lockmgr.Holder {
	a := r.ask(q)
	a.Weak = a.Weak || !q.File.IsWritable()
	return r.c.Engine.Test(a, r.Key(q.File, q.Class))
}

// Lock takes a lock. An errno is what the program gets.
func (r *Room) Lock(q *Request) (*lockmgr.Lock, unix.Errno) {
	a := r.ask(q)
	if q.Class == lockmgr.Posix {
		q.File.Inode().bytes.Store(true)
		if e := r.c.Engine.LocksBytes(q.File); e != 0 {
			return nil, e
		}
	}
	r.note(q.File, a.Client) // before the grant: see Released
	l, e := r.acquire(a)
	if e != 0 {
		return nil, e
	}
	r.remember(q.File, a.Client, l)
	if q.Class == lockmgr.Posix {
		r.unlockAtEnd(q.File, a.Client, q.By.Owner())
	}
	return l, 0
}

// acquire takes a lock under the key that the file has when it is granted: names may have
// changed hands while it was asked for, or waited for.
func (r *Room) acquire(a *Ask) (*lockmgr.Lock, unix.Errno) {
	r.letGo(a)
	for {
		l, e := r.c.Engine.Acquire(a)
		if e != 0 {
			return nil, e
		}
		have := l.Keys()
		if len(have) == 0 || slices.Contains(have, r.Key(a.File, a.Class)) {
			return l, 0
		}
		r.c.Table.Unlock(have[0], a.Class, a.Client.ID, a.Range)
	}
}

// Unlock gives back what a client has locked of the bytes that the request says.
func (r *Room) Unlock(q *Request) {
	c := q.client()
	for _, k := range r.keys(q.File, c, r.Key(q.File, c.Class)) {
		r.c.Table.Unlock(k, c.Class, c.ID, q.Range)
	}
}
