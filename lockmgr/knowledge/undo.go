package knowledge

import (
	"slices"
	"time"

	"latchfs/lockmgr"
)

// Sight is one call of Saw that may turn out to have been no look at all.
type Sight struct {
	Key    Key
	Who    Who
	At     time.Time
	before []fact // of who's chain
}

// Before remembers what those on the chain know before they are told of a version at
// the moment at.
func (t *Table) Before(at time.Time, key Key, who Who) *Sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Sight{Key: key, Who: who, At: at}
	e := t.files[key]
	if e == nil {
		return s
	}
	for _, o := range who.chain() {
		s.before = append(s.before, e.facts.get(o))
	}
	return s
}

// Gave reports whether what somebody knows comes from this sight.
func (s *Sight) Gave(b *Basis) bool { return s.At.Equal(b.At) }

// Under is the same sight of a file that has got another key since. The numbers of its
// versions may have changed with the key: what was known before is of one that is too
// long ago to tell.
func (s *Sight) Under(key Key) *Sight {
	if key == s.Key {
		return s
	}
	moved := *s
	moved.Key, moved.before = key, slices.Clone(s.before)
	for i := range moved.before {
		b := &moved.before[i]
		b.own.number, b.own.through, b.lent.number, b.lent.through = 0, 0, 0, 0
	}
	return &moved
}

// Withdraw makes those who have learned something by the sight, and nothing since,
// know what they knew before.
func (t *Table) Withdraw(s *Sight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(s.Key)
	if e == nil {
		return
	}
	t.counted(s.Key, e, func() {
		for i, o := range s.Who.chain() {
			e.withdraw(o, s.At, s.knew(i))
		}
	})
}

func (s *Sight) knew(i int) fact {
	if i < len(s.before) {
		return s.before[i]
	}
	return fact{}
}

func (x *file) withdraw(o lockmgr.Owner, at time.Time, before fact) {
	k := x.facts.get(o)
	if k.own.at.Equal(at) {
		k.own = before.own
	}
	if k.lent.at.Equal(at) {
		k.lent = before.lent
	}
	x.facts.put(o, k)
}
