package policy

import (
	"hash/maphash"
	"sync"
)

// A cache remembers what was decided for recent paths. It is split by the
// path's hash, so that opens on different files do not meet, and bounded: each
// shard holds two generations and forgets the older one when the younger is
// full, which keeps what is in use without a list to maintain.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

const (
	cacheShards = 16
	// generationSize bounds a cache to cacheShards*2*generationSize paths.
	generationSize = 512
)

type cacheShard struct {
	mu         sync.Mutex
	young, old map[string]*Settings // mu guards both
}

func newCache() *cache {
	return &cache{seed: maphash.MakeSeed()}
}

func (c *cache) shard(path string) *cacheShard {
	return &c.shards[maphash.String(c.seed, path)%cacheShards]
}

func (c *cache) get(path string) (*Settings, bool) {
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

func (c *cache) put(path string, v *Settings) {
	s := c.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(path, v)
}

func (s *cacheShard) addLocked(path string, v *Settings) {
	if s.young == nil || len(s.young) >= generationSize {
		s.young, s.old = make(map[string]*Settings), s.young
	}
	s.young[path] = v
}
