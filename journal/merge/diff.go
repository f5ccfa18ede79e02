package merge

import (
	"slices"
	"sort"
)

// token stands for an item of a sequence: equal items have equal tokens.
type token uint32

// The bounds of a comparison. Myers' algorithm takes time and memory with the
// square of the edits.
const (
	maxItems    = 1 << 19 // of each side
	maxEdits    = 2000    // between two items that are matched for being unique
	maxSteps    = 1 << 28 // of all comparisons of items, about a second
	maxPatience = 16      // how deep unique items are looked for between unique items
)

// match tells where each item of a has its counterpart in b, -1 for none. The
// counterparts are in ascending order. ok: it could be found out within bounds.
//
// Items that are unique on both sides are matched first (the "patience" diff),
// for these are what people take for the same; what lies between them by the
// longest common subsequence (Myers, "An O(ND) Difference Algorithm and Its
// Variations", 1986).
func match(a, b []token) (counterpart []int, ok bool) {
	m := matcher{a: a, b: b, to: make([]int, len(a))}
	for i := range m.to {
		m.to[i] = -1
	}
	ok = m.between(0, len(a), 0, len(b), 0)
	return m.to, ok
}

type matcher struct {
	a, b  []token
	to    []int
	steps int
}

// between matches a[i:j] with b[p:q].
func (m *matcher) between(i, j, p, q, depth int) bool {
	for i < j && p < q && m.a[i] == m.b[p] {
		m.to[i] = p
		i, p = i+1, p+1
	}
	for i < j && p < q && m.a[j-1] == m.b[q-1] {
		j, q = j-1, q-1
		m.to[j] = q
	}
	if i == j || p == q {
		return true
	}
	var anchors [][2]int
	if depth < maxPatience {
		anchors = ascending(m.unique(i, j, p, q))
	}
	if len(anchors) == 0 {
		return m.shortest(i, j, p, q)
	}
	for _, at := range anchors {
		if !m.between(i, at[0], p, at[1], depth+1) {
			return false
		}
		m.to[at[0]] = at[1]
		i, p = at[0]+1, at[1]+1
	}
	return m.between(i, j, p, q, depth+1)
}

// unique returns the pairs of items that each side has once, in the order of a.
func (m *matcher) unique(i, j, p, q int) (pairs [][2]int) {
	type seen struct{ inA, inB, at int }
	counts := make(map[token]*seen)
	for k := i; k < j; k++ {
		if s := counts[m.a[k]]; s != nil {
			s.inA++
		} else {
			counts[m.a[k]] = &seen{inA: 1}
		}
	}
	for k := p; k < q; k++ {
		if s := counts[m.b[k]]; s != nil {
			s.inB++
			s.at = k
		}
	}
	for k := i; k < j; k++ {
		if s := counts[m.a[k]]; s.inA == 1 && s.inB == 1 {
			pairs = append(pairs, [2]int{k, s.at})
		}
	}
	return pairs
}

// ascending is the longest of the subsequences whose second numbers ascend.
func ascending(pairs [][2]int) [][2]int {
	var (
		piles    []int // the index of each pile's top
		previous = make([]int, len(pairs))
	)
	for k, pair := range pairs {
		pile := sort.Search(len(piles), func(n int) bool { return pairs[piles[n]][1] >= pair[1] })
		previous[k] = -1
		if pile > 0 {
			previous[k] = piles[pile-1]
		}
		if pile == len(piles) {
			piles = append(piles, k)
		} else {
			piles[pile] = k
		}
	}
	if len(piles) == 0 {
		return nil
	}
	longest := make([][2]int, 0, len(piles))
	for k := piles[len(piles)-1]; k >= 0; k = previous[k] {
		longest = append(longest, pairs[k])
	}
	slices.Reverse(longest)
	return longest
}

// shortest matches a[i:j] with b[p:q] by a longest common subsequence. Items that
// the other side does not have are no part of any, and left out.
func (m *matcher) shortest(i, j, p, q int) bool {
	a := common(m.a, i, j, m.b[p:q])
	b := common(m.b, p, q, m.a[i:j])
	limit := min(maxEdits, len(a)+len(b))
	frontier := make([]int32, 2*limit+3) // by diagonal, from -limit-1 on: how far a has been walked
	var trace [][]int32
	for edits := 0; edits <= limit && m.steps <= maxSteps; edits++ {
		if m.walk(a, b, frontier, edits) {
			m.walkBack(a, b, trace, edits)
			return true
		}
		trace = append(trace, slices.Clone(frontier[limit+1-edits:limit+2+edits]))
	}
	return false
}

// walk goes as far as can be gone with so many edits, on every diagonal, and tells
// whether that is to the end of both.
func (m *matcher) walk(a, b []int, frontier []int32, edits int) bool {
	middle := len(frontier) / 2
	for k := -edits; k <= edits; k += 2 {
		x := step(frontier[middle+k-1:middle+k+2], k, edits)
		y, from := x-k, x
		for x < len(a) && y < len(b) && m.a[a[x]] == m.b[b[y]] {
			x, y = x+1, y+1
		}
		frontier[middle+k] = int32(x)
		m.steps += 1 + x - from
		if x == len(a) && y == len(b) {
			return true
		}
	}
	return false
}

// step is where in a the furthest path with one edit less goes on, on diagonal k;
// beside has how far it is on the diagonals before, k and after.
func step(beside []int32, k, edits int) int {
	switch {
	case edits == 0:
		return 0
	case k == -edits || k != edits && beside[0] < beside[2]:
		return int(beside[2])
	}
	return int(beside[0]) + 1
}

// walkBack enters the matches of the path that trace tells of.
func (m *matcher) walkBack(a, b []int, trace [][]int32, edits int) {
	x, y := len(a), len(b)
	for ; edits > 0; edits-- {
		before, k := trace[edits-1], x-y
		at := func(diagonal int) int { // within before, which begins at 1-edits
			n := diagonal + edits - 1
			if n < 0 || n >= len(before) {
				return -1
			}
			return int(before[n])
		}
		from := k - 1
		if k == -edits || k != edits && at(k-1) < at(k+1) {
			from = k + 1
		}
		fromX := at(from)
		fromY := fromX - from
		startX := fromX
		if from == k-1 {
			startX++
		}
		for ; x > startX; x, y = x-1, y-1 {
			m.to[a[x-1]] = b[y-1]
		}
		x, y = fromX, fromY
	}
	for ; x > 0; x, y = x-1, y-1 {
		m.to[a[x-1]] = b[y-1]
	}
}

// common lists the places of s[from:to] whose items others has, too.
func common(s []token, from, to int, others []token) (at []int) {
	has := make(map[token]bool, len(others))
	for _, o := range others {
		has[o] = true
	}
	for k := from; k < to; k++ {
		if has[s[k]] {
			at = append(at, k)
		}
	}
	return at
}
