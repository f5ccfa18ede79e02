package disk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Shared is a descriptor with several holders, the last of which closes it: a descriptor of
// one's own for each of them would cost two system calls.
type Shared struct {
	fd      int
	holders atomic.Int32
}

// Share makes fd the caller's as its first holder.
func Share(fd int) *Shared {
	s := &Shared{fd: fd}
	s.holders.Store(1)
	return s
}

// FD is the descriptor.
func (s *Shared) FD() int { return s.fd }

// Hold adds a holder, unless the last one has gone already.
func (s *Shared) Hold() bool {
	for {
		n := s.holders.Load()
		if n == 0 {
			return false
		}
		if s.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Drop ends what Share or Hold has begun. nil holds nothing.
func (s *Shared) Drop() {
	if s != nil && s.holders.Add(-1) == 0 {
		unix.Close(s.fd)
	}
}
