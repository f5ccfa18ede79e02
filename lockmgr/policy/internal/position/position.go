// Package position says on which line of a TOML document what is written, for error messages:
// the decoder keeps no positions. It knows keys and indices, and nothing of what they mean.
//
// The package is pure, and a Map does not change after Locate.
package position

import (
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Node names a place in a TOML document: the keys and indices that lead to it.
type Node string

const nodeSep = "\x00"

// Root is the document itself.
const Root Node = ""

// Key is the node of a key in a table.
func (n Node) Key(k string) Node { return n + nodeSep + Node(k) }

// Item is the node of an item of an array, or of one of the [[tables]] of a name.
func (n Node) Item(i int) Node { return n + nodeSep + Node(strconv.Itoa(i)) }

// Map says on which line of a document its nodes are.
type Map map[Node]int

// Line returns the line of a node, or else of the nearest node around it, counted from 1.
func (l Map) Line(n Node) int {
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

// Locate finds the lines of a document that is known to be well-formed. The
// decoder keeps no positions, so the document is parsed a second time.
func Locate(data []byte) Map {
	l := locator{lines: Map{}, tables: map[Node]int{}}
	l.p.Reset(data)
	table := Root
	for l.p.NextExpression() {
		e := l.p.Expression()
		switch e.Kind {
		case unstable.Table:
			table = l.keys("", e.Key())
		case unstable.ArrayTable:
			list, line := l.arrayKeys(e.Key())
			table = list.Item(l.tables[list])
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
	lines  Map
	tables map[Node]int // how many [[tables]] of that name came so far
}

func (l *locator) keyValue(in Node, kv *unstable.Node) {
	l.value(l.keys(in, kv.Key()), kv.Value())
}

// keys follows a dotted key, into the last of the tables where it meets an
// array of them.
func (l *locator) keys(in Node, it unstable.Iterator) Node {
	for it.Next() {
		in = l.step(in, it.Node())
		if n := l.tables[in]; n > 0 {
			in = in.Item(n - 1)
		}
	}
	return in
}

// arrayKeys follows the key of a [[table]] header; its last part is the array.
func (l *locator) arrayKeys(it unstable.Iterator) (list Node, line int) {
	for it.Next() {
		if n := l.tables[list]; n > 0 {
			list = list.Item(n - 1)
		}
		list = l.step(list, it.Node())
		line = l.lineOf(it.Node())
	}
	return list, line
}

// step goes one key further down and notes where that was seen first.
func (l *locator) step(in Node, key *unstable.Node) Node {
	in = in.Key(string(key.Data))
	if _, ok := l.lines[in]; !ok {
		l.lines[in] = l.lineOf(key)
	}
	return in
}

func (l *locator) value(at Node, v *unstable.Node) {
	it := v.Children()
	for i := 0; it.Next(); i++ {
		child := it.Node()
		if v.Kind == unstable.InlineTable {
			l.keyValue(at, child)
			continue
		}
		item := at.Item(i)
		if child.Raw.Length > 0 { // arrays have no place of their own
			l.lines[item] = l.lineOf(child)
		}
		l.value(item, child)
	}
}

func (l *locator) lineOf(n *unstable.Node) int {
	return l.p.Shape(n.Raw).Start.Line
}
