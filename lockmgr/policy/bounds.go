package policy

import (
	"strconv"
	"strings"
	"time"

	"latchfs/lockmgr/policy/internal/position"
)

// Bounds limit a store of old bytes. What is oldest goes first.
type Bounds struct {
	MaxBytes int64         // all entries together
	MaxAge   time.Duration // of an entry; 0: any
}

// maxHistory is how many versions a policy may keep of one file.
const maxHistory = 10_000

func factoryHistory() Bounds  { return Bounds{MaxBytes: 1 << 30, MaxAge: 90 * day} }
func factoryRejected() Bounds { return Bounds{MaxBytes: 256 << 20, MaxAge: 30 * day} }

const day = 24 * time.Hour

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
	table, ok := v.(map[string]any)
	if !ok {
		p.fail(at, "must be a table of %s", strings.Join(boundKeys, ", "))
		return b
	}
	for key, v := range table {
		at := at.Key(key)
		switch key {
		case keyMaxBytes:
			b.maxBytes = p.bytes(at, key, v)
		case keyMaxAge:
			age := p.age(at, key, v)
			b.maxAge = &age
		default:
			p.unknown(at, key, boundKeys)
		}
	}
	return b
}

// age reads a duration that may be given in days, as in "30d".
func (p *parser) age(at position.Node, key string, v any) time.Duration {
	s, ok := v.(string)
	if digits, days := strings.CutSuffix(s, "d"); ok && days {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > 100_000 {
			p.fail(at, `bad %s %q: an age is written as in "30d", "12h" or "0s", which is any age`, key, s)
		}
		return time.Duration(n) * day
	}
	if d := p.duration(at, key, v); d != nil {
		return time.Duration(*d)
	}
	return 0
}

// ageText is what age reads.
func ageText(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return Duration(d).String()
}

func (p *parser) count(at position.Node, key string, v any) *int {
	n, ok := v.(int64)
	if !ok || n < 0 || n > maxHistory {
		p.fail(at, "%s must be a number from 0 to %d", key, maxHistory)
		return nil
	}
	i := int(n)
	return &i
}
