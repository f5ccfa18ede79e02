package proc

import (
	"sync/atomic"
	"time"
)

// slots is a cache of fixed size for what is known of pids: each pid has one
// slot, which the last one to come takes. Pids rise, so those in use at a time
// spread over all slots.
type slots[T any] struct {
	slot [2048]atomic.Pointer[T]
}

func (s *slots[T]) get(pid int32) *T    { return s.at(pid).Load() }
func (s *slots[T]) put(pid int32, v *T) { s.at(pid).Store(v) }
func (s *slots[T]) at(pid int32) *atomic.Pointer[T] {
	return &s.slot[uint32(pid)%uint32(len(s.slot))]
}

// epoch is where the times of cache entries count from, so that they compare
// on the monotonic clock.
var epoch = time.Now()

// now is the time since epoch.
func now() time.Duration { return time.Since(epoch) }
