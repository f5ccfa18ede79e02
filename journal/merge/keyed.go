package merge

import (
	"slices"
	"strings"
)

// entry is a member of a merged container: where it stands on both sides, nil if
// it does not, and its value.
type entry struct {
	theirs, mine *member
	result       merged
}

// keyed joins containers whose members have a name of their own: objects, and
// arrays whose items have an id.
type keyed struct {
	merge              *jsonMerge
	items              bool // they are items, whose order means something
	name               func(*member) string
	at                 func(m *member, index int) *place // of a member of mine
	base, theirs, mine named

	joined map[string]entry // what is in the result
}

// named is a container, and where in it each name is.
type named struct {
	*node
	index map[string]int
}

func (k *keyed) named(n *node) named {
	index := make(map[string]int, len(n.members))
	for i := range n.members {
		index[k.name(&n.members[i])] = i
	}
	return named{n, index}
}

func (n named) member(name string) *member {
	if i, ok := n.index[name]; ok {
		return &n.members[i]
	}
	return nil
}

// join returns the members of the result in their order.
func (k *keyed) join(base, t, m *node) ([]entry, error) {
	k.base, k.theirs, k.mine = k.named(base), k.named(t), k.named(m)
	k.joined = make(map[string]entry)
	first, second, ok := k.backbone()
	if !ok {
		return nil, k.at(&m.members[0], 0).refuse(bothReordered)
	}
	order, err := k.all(first)
	if err != nil {
		return nil, err
	}
	if order, err = k.addFrom(second, first, order); err != nil {
		return nil, err
	}
	entries := make([]entry, len(order))
	for i, name := range order {
		entries[i] = k.joined[name]
	}
	return entries, nil
}

// all joins the members of a side, and returns the names of those that stay.
func (k *keyed) all(n named) (names []string, err error) {
	for i := range n.members {
		name := k.name(&n.members[i])
		stays, err := k.one(name)
		if err != nil {
			return nil, err
		}
		if stays {
			names = append(names, name)
		}
	}
	return names, nil
}

// addFrom puts what only the second side has behind what it stands behind there;
// where the first side has something new in the same place, theirs comes first.
// Sorted keys stay sorted.
func (k *keyed) addFrom(second, first named, order []string) ([]string, error) {
	after := make(map[string][]string) // by the name before it
	before, added := "", 0
	for i := range second.members {
		name := k.name(&second.members[i])
		if first.member(name) != nil {
			if _, stays := k.joined[name]; stays {
				before = name
			}
			continue
		}
		stays, err := k.one(name)
		if err != nil {
			return nil, err
		}
		if stays {
			after[before] = append(after[before], name)
			order = append(order, name)
			added++
		}
	}
	if !k.items && k.sorted(first) && k.sorted(second) {
		slices.Sort(order)
		return order, nil
	}
	isNew := func(name string) bool { return k.base.member(name) == nil && second.member(name) == nil }
	return weave(order[:len(order)-added], after, first.node == k.theirs.node, isNew), nil
}

func weave(order []string, after map[string][]string, firstIsTheirs bool, isNew func(string) bool) []string {
	var all []string
	waiting := after[""]
	for _, name := range order {
		if !firstIsTheirs || !isNew(name) {
			all = append(all, waiting...)
			waiting = nil
		}
		all = append(all, name)
		waiting = append(waiting, after[name]...)
	}
	return append(all, waiting...)
}

// backbone tells which side's order is kept: that of the side that has changed it,
// or else of the style that leads. !ok: both have changed it, and it matters.
func (k *keyed) backbone() (first, second named, ok bool) {
	theyMoved, iMoved := k.moved(k.theirs, k.base), k.moved(k.mine, k.base)
	switch {
	case theyMoved && iMoved && k.items && k.moved(k.theirs, k.mine):
		return first, second, false
	case iMoved && !theyMoved, k.merge.lead == mine && !theyMoved:
		return k.mine, k.theirs, true
	}
	return k.theirs, k.mine, true
}

// moved reports whether two containers have the names that they share in
// different orders.
func (k *keyed) moved(n, than named) bool {
	last := -1
	for i := range n.members {
		at, ok := than.index[k.name(&n.members[i])]
		if ok && at < last {
			return true
		}
		if ok {
			last = at
		}
	}
	return false
}

func (k *keyed) sorted(n named) bool {
	return slices.IsSortedFunc(n.members, func(a, b member) int { return strings.Compare(a.key, b.key) })
}

// one joins the members of one name. stays: it is in the result.
func (k *keyed) one(name string) (stays bool, err error) {
	was := k.base.member(name)
	e := entry{theirs: k.theirs.member(name), mine: k.mine.member(name)}
	at := func(m *member) *place { return k.at(m, k.mine.index[name]) }
	switch {
	case e.theirs != nil && e.mine != nil:
		if e.result, err = k.both(was, e); err != nil {
			return false, err
		}
	case e.theirs != nil:
		if was != nil {
			return false, unless(was.value.id == e.theirs.value.id, at(e.theirs), iDeleted)
		}
		e.result = merged{e.theirs.value, theirs}
	default:
		if was != nil {
			return false, unless(was.value.id == e.mine.value.id, at(e.mine), theyDeleted)
		}
		e.result = merged{e.mine.value, mine}
	}
	k.joined[name] = e
	return true, nil
}

func unless(ok bool, at *place, reason string) error {
	if ok {
		return nil
	}
	return at.refuse(reason)
}

// both joins what both sides have.
func (k *keyed) both(was *member, e entry) (merged, error) {
	at := k.at(e.mine, k.mine.index[k.name(e.mine)])
	if was != nil {
		return k.merge.value(at, was.value, e.theirs.value, e.mine.value)
	}
	if k.items && e.theirs.value.id != e.mine.value.id {
		return merged{}, at.refuse(bothAdded) // two items that happen to have the same id
	}
	return k.merge.value(at, nil, e.theirs.value, e.mine.value)
}
