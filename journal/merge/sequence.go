package merge

// A sequence is merged item by item of its base. Between the items are gaps, one
// more than there are items:
//
//	base:      A   B   C
//	gap:     0   1   2   3
//
// Each side has kept, replaced or deleted each item, and put something or nothing
// into each gap.

// edits are what one side has done to the base.
type edits struct {
	side []token
	kept []bool
	// to is, for each item of the base, the item that stands in its place; -1: none.
	to []int
	// put has, for each gap, which items were put in: from, to.
	put [][2]int
	// shut tells of each gap that nobody can say where in it something else
	// belongs: it is inside of what was deleted or has grown, or at the edge of what
	// became fewer. At the edges of what was deleted it is frayed.
	shut, frayed []bool
}

// editsOf compares a side with the base. ok: within bounds.
func editsOf(base, side []token) (e *edits, ok bool) {
	to, ok := match(base, side)
	if !ok {
		return nil, false
	}
	n := len(base)
	e = &edits{side: side, to: to, kept: make([]bool, n), put: make([][2]int, n+1),
		shut: make([]bool, n+1), frayed: make([]bool, n+1)}
	q := 0
	for i := 0; ; i++ {
		from, p := i, q
		for i < n && to[i] < 0 {
			i++
		}
		if q = len(side); i < n {
			q = to[i]
			e.kept[i] = true
		}
		e.hunk(from, i, p, q)
		if i == n {
			return e, true
		}
		q++
	}
}

// hunk enters that base[i:j] became side[p:q]. As many as there are on both sides
// stand in each other's place.
func (e *edits) hunk(i, j, p, q int) {
	for k := i; k < j && p < q; k++ {
		e.to[k] = p
		p++
	}
	e.put[j] = [2]int{p, q}
	grown, shrunk := i < j && p < q, i < j && e.to[j-1] < 0
	for gap := i + 1; gap < j && (grown || shrunk); gap++ {
		e.shut[gap] = true
	}
	if shrunk {
		e.frayed[i], e.frayed[j] = true, true
		if e.to[i] >= 0 { // which of them are gone, and which replaced?
			e.shut[i], e.shut[j] = true, true
		}
	}
}

// pick is one item of a merged sequence: where it is in the base, in theirs and in
// mine, -1 where it is not.
type pick struct{ base, theirs, mine int }

// sequences joins the edits of two sides.
type sequences struct {
	theirs, mine *edits
	// careful refuses what is put in beside something deleted. appends: what both
	// have put in at the end is kept.
	careful, appends bool
	// refuse makes the error for a place in mine.
	refuse func(mine int, reason string) error
	picks  []pick
	at     int // where in mine we are
}

// newSequences compares both sides with the base.
func newSequences(base, theirs, mine []token) (*sequences, error) {
	t, ok := editsOf(base, theirs)
	if !ok {
		return nil, &Conflict{Reason: tooDifferent}
	}
	m, ok := editsOf(base, mine)
	if !ok {
		return nil, &Conflict{Reason: tooDifferent}
	}
	return &sequences{theirs: t, mine: m}, nil
}

// merge returns what the merged sequence consists of. An item that both have
// replaced, each by its own, has all three places and is for the caller to judge.
func (s *sequences) merge() ([]pick, error) {
	n := len(s.mine.to)
	for i := range n {
		if err := s.gap(i); err != nil {
			return nil, err
		}
		if err := s.item(i); err != nil {
			return nil, err
		}
	}
	return s.picks, s.gap(n)
}

// item joins what became of an item of the base.
func (s *sequences) item(i int) error {
	t, m := s.theirs.to[i], s.mine.to[i]
	if m >= 0 {
		s.at = m + 1
	}
	switch {
	case t >= 0 && m >= 0:
		s.picks = append(s.picks, pick{i, t, m})
	case t >= 0 && !s.theirs.kept[i]:
		return s.refuse(s.at, iDeleted)
	case m >= 0 && !s.mine.kept[i]:
		return s.refuse(m, theyDeleted)
	}
	return nil
}

// gap joins what both have put into a gap.
func (s *sequences) gap(g int) error {
	t, m := s.theirs.put[g], s.mine.put[g]
	if m[0] < m[1] {
		s.at = m[0]
	}
	theyPut, iPut := t[0] < t[1], m[0] < m[1]
	switch {
	case theyPut && !iPut && s.closed(s.mine, g), iPut && !theyPut && s.closed(s.theirs, g):
		return s.refuse(s.at, besideDeleted)
	}
	same := func(t, m int) bool { return s.theirs.side[t] == s.mine.side[m] }
	for t[0] < t[1] && m[0] < m[1] && same(t[0], m[0]) {
		s.picks = append(s.picks, pick{-1, t[0], m[0]})
		t[0], m[0] = t[0]+1, m[0]+1
	}
	var after []pick
	for t[0] < t[1] && m[0] < m[1] && same(t[1]-1, m[1]-1) {
		t[1], m[1] = t[1]-1, m[1]-1
		after = append(after, pick{-1, t[1], m[1]})
	}
	atEnd := g == len(s.mine.to)
	if t[0] < t[1] && m[0] < m[1] && !(s.appends && atEnd) {
		return s.refuse(m[0], bothInserted)
	}
	for ; t[0] < t[1]; t[0]++ {
		s.picks = append(s.picks, pick{-1, t[0], -1})
	}
	for ; m[0] < m[1]; m[0]++ {
		s.picks = append(s.picks, pick{-1, -1, m[0]})
	}
	for k := len(after) - 1; k >= 0; k-- {
		s.picks = append(s.picks, after[k])
	}
	if m := s.mine.put[g]; m[0] < m[1] {
		s.at = m[1]
	}
	return nil
}

func (s *sequences) closed(other *edits, g int) bool {
	return other.shut[g] || s.careful && other.frayed[g]
}
