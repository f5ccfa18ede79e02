package policy

import (
	"time"

	"latchfs/lockmgr/policy/internal/position"
	"latchfs/lockmgr/policy/internal/reading"
)

// Bounds limit a store of old bytes. What is oldest goes first.
type Bounds struct {
	MaxBytes int64         // all entries together
	MaxAge   time.Duration // of an entry; 0: any
}

// maxHistory is how many versions a policy may keep of one file.
const maxHistory = 10_000

func factoryHistory() Bounds  { return Bounds{MaxBytes: 1 << 30, MaxAge: 90 * reading.Day} }
func factoryRejected() Bounds { return Bounds{MaxBytes: 256 << 20, MaxAge: 30 * reading.Day} }

// HistoryBounds limit the earlier versions of all files together; Settings.History
// limits those of one file.
func (p *Policy) HistoryBounds() Bounds { return p.history }

// RejectedBounds limit the bytes of refused writes that are kept.
func (p *Policy) RejectedBounds() Bounds { return p.rejected }

// writtenBounds are the limits that a policy file sets; nil is unset.
type writtenBounds struct {
	maxBytes *Bytes
	maxAge   *time.Duration
}

// over lays them over others.
func (w writtenBounds) over(b Bounds) Bounds {
	if w.maxBytes != nil {
		b.MaxBytes = int64(*w.maxBytes)
	}
	if w.maxAge != nil {
		b.MaxAge = *w.maxAge
	}
	return b
}

// bounds reads the table of a store's limits.
func (p *parser) bounds(at position.Node, v any) writtenBounds {
	var b writtenBounds
	for key, v := range p.Table(at, v, boundKeys) {
		at := at.Key(key)
		switch key {
		case keyMaxBytes:
			b.maxBytes = p.Bytes(at, key, v)
		case keyMaxAge:
			age := p.Age(at, key, v)
			b.maxAge = &age
		default:
			p.Unknown(at, key, boundKeys)
		}
	}
	return b
}
