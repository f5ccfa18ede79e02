package describe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

// Holder describes one lock, held or waiting, at the moment it was looked at.
type Holder[L any] struct {
	Keys   []keytree.Key // the trees among them
	Trees  []keytree.Key
	Mode   rules.Mode
	Class  rules.Class
	Client uint64
	Range  rules.Range // Whole unless Class is Posix
	Owner  rules.Owner
	Token  uint64 // 0 while it waits
	Since  rules.Birth
	Now    time.Time // when it was asked for
	Label  any
	Lock   *L

	TTL   time.Duration
	Beat  time.Time // the last heartbeat that did not fail; zero before the lease begins
	Stale bool      // the lease has expired
}

// Covers reports whether the lock is on one of the keys, or on a tree above one.
func (h *Holder[L]) Covers(keys []keytree.Key) bool {
	return slices.ContainsFunc(keys, func(k keytree.Key) bool {
		return slices.Contains(h.Keys, k) || slices.ContainsFunc(h.Trees, func(tree keytree.Key) bool {
			return k.In(tree)
		})
	})
}

// describe says what the lock is, and on what.
func (h *Holder[L]) describe() string {
	keys := make([]string, len(h.Keys))
	for i, k := range h.Keys {
		keys[i] = fmt.Sprintf("%q", string(k))
	}
	return fmt.Sprintf("%v %v lock on %s", h.Mode, h.Class, strings.Join(keys, ", "))
}
