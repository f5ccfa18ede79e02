package validate

import (
	"context"
	"sync"
)

// How much is checked at the same time for one user. Whoever keeps its places
// taken makes nobody else wait.
const (
	smallParses = 2
	largeParses = 1
	commands    = 4
)

// allLargeParses is how much is parsed in processes of their own for all users
// together. The queue for these places holds one parse of each user at most.
const allLargeParses = 2

var (
	parsingSmall  = newSlots(smallParses)
	parsingLarge  = newSlots(largeParses)
	running       = newSlots(commands)
	parsingForAll = make(chan struct{}, allLargeParses)
)

// slots are the places that each user has for something.
type slots struct {
	each int

	mu sync.Mutex
	of map[uint32]*slot // guarded by mu; users who have a place or wait for one
}

// slot is the places of one user.
type slot struct {
	taken chan struct{}
	users int // how many have a place or wait for one
}

func newSlots(each int) *slots { return &slots{each: each, of: map[uint32]*slot{}} }

// take waits for a place of a user, and returns what gives it back.
func (s *slots) take(ctx context.Context, uid uint32) (leave func(), err error) {
	s.mu.Lock()
	place := s.of[uid]
	if place == nil {
		place = &slot{taken: make(chan struct{}, s.each)}
		s.of[uid] = place
	}
	place.users++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if place.users--; place.users == 0 {
			delete(s.of, uid)
		}
	}
	if err := enter(ctx, place.taken); err != nil {
		forget()
		return nil, err
	}
	return func() {
		<-place.taken
		forget()
	}, nil
}

// enter waits for a place in a channel of places.
func enter(ctx context.Context, taken chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
