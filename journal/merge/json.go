package merge

import (
	"bytes"
	"strconv"
	"strings"
)

// side tells whose a value is.
type side uint8

const (
	theirs side = iota
	mine
	blended // a container with something of both, in the style that leads
)

// merged is a value of the result.
type merged struct {
	value *node
	from  side
}

// jsonMerge joins JSON values.
type jsonMerge struct {
	lead   side // whose style and order are kept
	styles [2]style
}

// mergeJSON joins three JSON documents.
func mergeJSON(base, their, my []byte) ([]byte, error) {
	ids := make(values)
	var docs [3]document
	for i, content := range [][]byte{base, their, my} {
		d, err := readDocument(content, ids)
		if err != nil {
			return nil, sayWhose(err, i)
		}
		docs[i] = d
	}
	g := newJSONMerge(docs[0].style, docs[1].style, docs[2].style)
	m, err := g.value(nil, docs[0].root, docs[1].root, docs[2].root)
	if err != nil {
		return nil, err
	}
	frame := docs[1+g.lead]
	var out bytes.Buffer
	out.Write(frame.head)
	write(&out, g.adapted(m, nil))
	out.Write(frame.trail)
	if _, err := readDocument(out.Bytes(), make(values)); err != nil {
		return nil, &Conflict{Reason: "the result would not be valid JSON"}
	}
	return out.Bytes(), nil
}

// newJSONMerge decides whose style leads: that of theirs, unless only mine has
// changed the base's.
func newJSONMerge(base, their, my style) *jsonMerge {
	g := &jsonMerge{styles: [2]style{their, my}}
	if their == base && my != base {
		g.lead = mine
	}
	return g
}

// document is a JSON value with the white space around it.
type document struct {
	head, trail []byte
	root        *node
	style       style
}

func readDocument(content []byte, ids values) (d document, err error) {
	if d.head, d.root, d.trail, err = parse(content, ids); err != nil {
		return d, err
	}
	d.style = styleOf(d.root)
	return d, nil
}

// sayWhose completes the reason why one of base, theirs and mine cannot be read.
func sayWhose(err error, whose int) error {
	c := *err.(*Conflict) //nolint:errorlint // our own, made by parse
	if whose < 2 {
		c.Line, c.Reason = 0, c.Reason+[]string{", in the version that both began with", ", in the file as it is now"}[whose]
	}
	return &c
}

// place is where in a JSON value we are.
type place struct {
	in   *place
	name string
	line int // of JSON Lines, instead of a name
}

func (p *place) key(name string) *place { return &place{in: p, name: name} }
func (p *place) index(n int) *place     { return &place{in: p, name: strconv.Itoa(max(n, 0))} }

// refuse makes the error for a place.
func (p *place) refuse(reason string) error {
	c := &Conflict{Reason: reason}
	for ; p != nil; p = p.in {
		if p.line > 0 {
			c.Line = p.line
			break
		}
		c.Pointer = "/" + pointerEscapes.Replace(p.name) + c.Pointer
	}
	return c
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// value joins three values, of which base may be missing: then both sides have
// added one.
func (g *jsonMerge) value(at *place, base, t, m *node) (merged, error) {
	switch {
	case t.id == m.id:
		if base != nil && !t.isContainer() && bytes.Equal(base.raw, t.raw) {
			return merged{m, mine}, nil
		}
		return g.leading(t, m), nil
	case base != nil && base.id == m.id:
		return merged{t, theirs}, nil
	case base != nil && base.id == t.id:
		return merged{m, mine}, nil
	case base == nil && t.kind == '{' && m.kind == '{':
		return g.object(at, &node{kind: '{'}, t, m)
	case base == nil && t.kind == '[' && m.kind == '[' && idField(t, m) != "":
		return g.array(at, &node{kind: '['}, t, m)
	case base == nil:
		return merged{}, at.refuse(bothAdded)
	case base.kind == '{' && t.kind == '{' && m.kind == '{':
		return g.object(at, base, t, m)
	case base.kind == '[' && t.kind == '[' && m.kind == '[':
		return g.array(at, base, t, m)
	}
	return merged{}, at.refuse(bothChanged)
}

// leading is the one of two equal values that has the style of the result.
func (g *jsonMerge) leading(t, m *node) merged {
	if g.lead == mine {
		return merged{m, mine}
	}
	return merged{t, theirs}
}

// object joins objects by key.
func (g *jsonMerge) object(at *place, base, t, m *node) (merged, error) {
	k := keyed{merge: g, name: func(n *member) string { return n.key },
		at: func(n *member, _ int) *place { return at.key(n.key) }}
	entries, err := k.join(base, t, m)
	if err != nil {
		return merged{}, err
	}
	return g.container(t, m, entries), nil
}

// array joins arrays by id where their items have one, or else in sequence.
func (g *jsonMerge) array(at *place, base, t, m *node) (merged, error) {
	entries, err := g.items(base, t, m, at.index)
	if err != nil {
		return merged{}, err
	}
	return g.container(t, m, entries), nil
}

// items joins the items of arrays, or the records of JSON Lines. at makes the place
// of an item of mine.
func (g *jsonMerge) items(base, t, m *node, at func(int) *place) ([]entry, error) {
	if field := idField(base, t, m); field != "" {
		k := keyed{merge: g, items: true, name: func(n *member) string { return idOf(n.value, field) },
			at: func(_ *member, i int) *place { return at(i) }}
		return k.join(base, t, m)
	}
	s, err := newSequences(itemIDs(base), itemIDs(t), itemIDs(m))
	if err != nil {
		return nil, err
	}
	s.appends = true
	s.refuse = func(i int, reason string) error { return at(i).refuse(reason) }
	picks, err := s.merge()
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, p := range picks {
		e, err := g.item(base, t, m, p, at)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// item is one item of a merged sequence.
func (g *jsonMerge) item(base, t, m *node, p pick, at func(int) *place) (e entry, err error) {
	if p.theirs >= 0 {
		e.theirs = &t.members[p.theirs]
		e.result = merged{e.theirs.value, theirs}
	}
	if p.mine >= 0 {
		e.mine = &m.members[p.mine]
		e.result = merged{e.mine.value, mine}
	}
	if e.theirs != nil && e.mine != nil {
		var was *node
		if p.base >= 0 {
			was = base.members[p.base].value
		}
		e.result, err = g.value(at(p.mine), was, e.theirs.value, e.mine.value)
	}
	return e, err
}

func itemIDs(n *node) []token {
	ids := make([]token, len(n.members))
	for i := range n.members {
		ids[i] = n.members[i].value.id
	}
	return ids
}

// idFields are what items are known by, the first that all have.
var idFields = []string{"id", "_id", "uuid", "guid", "key", "name"}

// idField finds the field by which the items of all arrays can be told apart; ""
// if there is none.
func idField(arrays ...*node) string {
	for _, field := range idFields {
		if tellsApart(field, arrays) {
			return field
		}
	}
	return ""
}

func tellsApart(field string, arrays []*node) bool {
	items := 0
	for _, a := range arrays {
		seen := make(map[string]bool, len(a.members))
		for i := range a.members {
			id := idOf(a.members[i].value, field)
			if id == "" || seen[id] {
				return false
			}
			seen[id] = true
			items++
		}
	}
	return items > 0
}

// idOf is what a field of an item says: a string or a number; "" if it has none.
func idOf(item *node, field string) string {
	for i := range item.members {
		if m := &item.members[i]; item.kind == '{' && m.key == field && (m.value.kind == '"' || m.value.kind == '0') {
			return strconv.Itoa(int(m.value.id)) + "."
		}
	}
	return ""
}
