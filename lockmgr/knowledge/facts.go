package knowledge

import (
	"iter"
	"slices"

	"latchfs/lockmgr"
)

// facts are what each process knows of a key. Most keys are known to a process and its
// ancestors, and a map takes several times the space of so few.
type facts struct {
	few  []ownFact
	many map[lockmgr.Owner]fact // instead of few, where those are more than fewFacts
}

// fewFacts is up to how many facts are looked through.
const fewFacts = 24

type ownFact struct {
	owner lockmgr.Owner
	fact
}

func (f *facts) len() int { return len(f.few) + len(f.many) }

func (f *facts) index(o lockmgr.Owner) int {
	return slices.IndexFunc(f.few, func(k ownFact) bool { return k.owner == o })
}

// get is what a process knows, and zero if that is nothing.
func (f *facts) get(o lockmgr.Owner) fact {
	if f.many != nil {
		return f.many[o]
	}
	if i := f.index(o); i >= 0 {
		return f.few[i].fact
	}
	return fact{}
}

// put notes what a process knows; zero is nothing.
func (f *facts) put(o lockmgr.Owner, k fact) {
	i := f.index(o)
	switch {
	case k == (fact{}):
		delete(f.many, o)
		if i >= 0 {
			f.few = slices.Delete(f.few, i, i+1)
		}
	case f.many != nil:
		f.many[o] = k
	case i >= 0:
		f.few[i].fact = k
	case len(f.few) < fewFacts:
		f.few = append(f.few, ownFact{o, k})
	default:
		f.many = make(map[lockmgr.Owner]fact, 2*fewFacts)
		for _, k := range f.few {
			f.many[k.owner] = k.fact
		}
		f.few = nil
		f.many[o] = k
	}
}

// all yields the facts. Nothing may be put meanwhile.
func (f *facts) all() iter.Seq2[lockmgr.Owner, fact] {
	return func(yield func(lockmgr.Owner, fact) bool) {
		for i := range f.few {
			if !yield(f.few[i].owner, f.few[i].fact) {
				return
			}
		}
		for o, k := range f.many {
			if !yield(o, k) {
				return
			}
		}
	}
}

// update puts what change makes of each fact, and reports whether that has changed any.
func (f *facts) update(change func(lockmgr.Owner, fact) fact) (changed bool) {
	kept := f.few[:0]
	for _, k := range f.few {
		is := change(k.owner, k.fact)
		changed = changed || is != k.fact
		if is != (fact{}) {
			kept = append(kept, ownFact{k.owner, is})
		}
	}
	clear(f.few[len(kept):])
	f.few = kept
	for o, k := range f.many {
		if is := change(o, k); is != k {
			changed = true
			f.put(o, is)
		}
	}
	if f.many != nil && len(f.many) < fewFacts/2 {
		many := f.many
		f.many = nil
		for o, k := range many {
			f.put(o, k)
		}
	}
	return changed
}

func (f *facts) clone() facts {
	c := facts{few: slices.Clone(f.few)}
	for o, k := range f.many {
		c.put(o, k)
	}
	return c
}
