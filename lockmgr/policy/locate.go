package policy

import (
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// node names a place in a TOML document: the keys and indices that lead to it.
type node string

const nodeSep = "\x00"

func (n node) key(k string) node { return n + nodeSep + node(k) }
func (n node) item(i int) node   { return n + nodeSep + node(strconv.Itoa(i)) }

// locations says on which line of a document its nodes are.
type locations map[node]int

// line returns the line of a node, or else of the nearest node around it.
func (l locations) line(n node) int {
	for {
		if line, ok := l[n]; ok {
			return line
		}
		i := len(n) - 1
		for i > 0 && n[i:i+1] != nodeSep {
			i--
		}
		if i <= 0 {
			return 1
		}
		n = n[:i]
	}
}

// locate finds the lines of a document that is known to be well-formed. The
// decoder keeps no positions, so the document is parsed a second time.
func locate(data []byte) locations {
	l := locator{lines: locations{}, tables: map[node]int{}}
	l.p.Reset(data)
	table := node("")
	for l.p.NextExpression() {
		e := l.p.Expression()
		switch e.Kind {
		case unstable.Table:
			table = l.keys("", e.Key())
		case unstable.ArrayTable:
			list, line := l.arrayKeys(e.Key())
			table = list.item(l.tables[list])
			l.tables[list]++
			l.lines[table] = line
		case unstable.KeyValue:
			l.keyValue(table, e)
		}
	}
	return l.lines
}

type locator struct {
	p      unstable.Parser
	lines  locations
	tables map[node]int // how many [[tables]] of that name came so far
}

func (l *locator) keyValue(in node, kv *unstable.Node) {
	l.value(l.keys(in, kv.Key()), kv.Value())
}

// keys follows a dotted key, into the last of the tables where it meets an
// array of them.
func (l *locator) keys(in node, it unstable.Iterator) node {
	for it.Next() {
		in = l.step(in, it.Node())
		if n := l.tables[in]; n > 0 {
			in = in.item(n - 1)
		}
	}
	return in
}

// arrayKeys follows the key of a [[table]] header; its last part is the array.
func (l *locator) arrayKeys(it unstable.Iterator) (list node, line int) {
	for it.Next() {
		if n := l.tables[list]; n > 0 {
			list = list.item(n - 1)
		}
		list = l.step(list, it.Node())
		line = l.lineOf(it.Node())
	}
	return list, line
}

// step goes one key further down and notes where that was seen first.
func (l *locator) step(in node, key *unstable.Node) node {
	in = in.key(string(key.Data))
	if _, ok := l.lines[in]; !ok {
		l.lines[in] = l.lineOf(key)
	}
	return in
}

func (l *locator) value(at node, v *unstable.Node) {
	it := v.Children()
	for i := 0; it.Next(); i++ {
		child := it.Node()
		if v.Kind == unstable.InlineTable {
			l.keyValue(at, child)
			continue
		}
		item := at.item(i)
		if child.Raw.Length > 0 { // arrays have no place of their own
			l.lines[item] = l.lineOf(child)
		}
		l.value(item, child)
	}
}

func (l *locator) lineOf(n *unstable.Node) int {
	return l.p.Shape(n.Raw).Start.Line
}
