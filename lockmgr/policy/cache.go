package policy

import (
	"hash/maphash"
	"sync"
)

// A cache remembers what was decided for recent paths. It is split by the
// path's hash, so that opens on different files do not meet, and bounded: each
// shard holds two generations and forgets the older one when the younger is
// full, which keeps what is in use without a list to maintain.
type cache[V any] struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard[V]
}

const (
	cacheShards = 16
	// generationSize bounds a cache to cacheShards*2*generationSize paths.
	generationSize = 512
)

type cacheShard[V any] struct {
	mu         sync.Mutex
	young, old map[string]V // mu guards both
}

func newCache[V any]() *cache[V] {
	return &cache[V]{seed: maphash.MakeSeed()}
}

func (c *cache[V]) shard(path string) *cacheShard[V] {
	return &c.shards[maphash.String(c.seed, path)%cacheShards]
}

func (c *cache[V]) get(path string) (V, bool) {
	s := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.young[path]; ok {
		return v, true
	}
	v, ok := s.old[path]
	if ok {
		s.addLocked(path, v)
	}
	return v, ok
}

func (c *cache[V]) put(path string, v V) {
	s := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(path, v)
}

func (s *cacheShard[V]) addLocked(path string, v V) {
	if s.young == nil || len(s.young) >= generationSize {
		s.young, s.old = make(map[string]V), s.young
	}
	s.young[path] = v
}
