// Package tally keeps a program that is refused again and again from filling the
// audit trail: of refusals that are alike the first are told one by one, and the
// others by their number.
//
// It has no clock and writes nothing: the caller says when it is, and writes what it
// is told to.
package tally

import (
	"sync"
	"time"
)

// What is told one by one within a Window.
const (
	Window  = 2 * time.Second
	PerKind = 10  // of one kind
	PerUser = 100 // of one user, of all kinds
)

// Kind says which refusals are alike.
type Kind struct {
	UID                    uint32
	Operation, Path, Errno string
}

// Omitted is refusals of one kind that were not told one by one.
type Omitted[E any] struct {
	Last  E // the last of them
	Count int
	// Mixed: they are all the further ones of the user, whatever their kind.
	Mixed bool
}

// Tally counts refusals, each with an event that would tell of it. Its methods may be
// called concurrently.
type Tally[E any] struct {
	mu    sync.Mutex
	kinds map[Kind]*count[E]   // guarded by mu
	users map[uint32]*count[E] // guarded by mu
}

// count is what has come since a window began.
type count[E any] struct {
	began   time.Time
	told    int
	omitted Omitted[E]
}

// Add reports whether a refusal is to be told now. If it is not, Take has it once its
// window is over; due says when to ask if it is the first for which that holds, and
// is zero otherwise.
func (t *Tally[E]) Add(now time.Time, k Kind, e E) (tell bool, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds, t.users = map[Kind]*count[E]{}, map[uint32]*count[E]{}
	}
	user := at(t.users, now, k.UID)
	if user.told >= PerUser {
		user.omitted.Mixed = true
		return false, user.omit(e)
	}
	kind := at(t.kinds, now, k)
	if kind.told >= PerKind {
		return false, kind.omit(e)
	}
	user.told++
	kind.told++
	return true, time.Time{}
}

// at is the count of a key in the present window.
func at[K comparable, E any](m map[K]*count[E], now time.Time, k K) *count[E] {
	c := m[k]
	if c == nil || c.omitted.Count == 0 && c.isOver(now) {
		c = &count[E]{began: now}
		m[k] = c
	}
	return c
}

func (c *count[E]) isOver(now time.Time) bool { return now.Sub(c.began).Abs() >= Window }

func (c *count[E]) omit(e E) (due time.Time) {
	c.omitted.Last = e
	if c.omitted.Count++; c.omitted.Count == 1 {
		return c.began.Add(Window)
	}
	return time.Time{}
}

// Take returns what was omitted in windows that are over, or in all, and forgets
// these.
func (t *Tally[E]) Take(now time.Time, all bool) []Omitted[E] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(take(t.kinds, now, all), take(t.users, now, all)...)
}

func take[K comparable, E any](m map[K]*count[E], now time.Time, all bool) []Omitted[E] {
	var out []Omitted[E]
	for k, c := range m {
		if !all && !c.isOver(now) {
			continue
		}
		if c.omitted.Count > 0 {
			out = append(out, c.omitted)
		}
		delete(m, k)
	}
	return out
}
