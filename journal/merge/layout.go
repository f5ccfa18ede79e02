package merge

import "bytes"

// style is how a JSON document is laid out.
type style struct {
	lines bool   // every member has a line of its own,
	unit  string // indented by this;
	comma string // or else it follows in the same line after this
	colon string
}

// styleOf finds out the style of a document from the first members in it.
func styleOf(root *node) style {
	s := style{comma: " ", colon: ": "}
	if len(root.members) == 0 {
		return s
	}
	first := &root.members[0]
	if s.lines = bytes.Contains(first.lead, newline); s.lines {
		s.unit = string(indentation(first.lead))
	} else if len(root.members) > 1 {
		s.comma = string(root.members[1].lead)
	}
	n := root
	for n.kind == '[' && len(n.members) > 0 {
		n = n.members[0].value
	}
	if n.kind == '{' && len(n.members) > 0 {
		s.colon = string(colonOf(&n.members[0]))
	}
	return s
}

// colonOf is the colon of a member, with the white space around it.
func colonOf(m *member) []byte { return m.label[bytes.LastIndexByte(m.label, '"')+1:] }

// indentation is what follows the last newline.
func indentation(space []byte) []byte { return space[bytes.LastIndexByte(space, '\n')+1:] }

// container makes the merged container of its members, laid out like that of the
// side that leads.
func (g *jsonMerge) container(t, m *node, entries []entry) merged {
	layout, other := t, m
	if g.lead == mine {
		layout, other = m, t
	}
	if len(layout.members) == 0 {
		layout = other
	}
	n := &node{kind: t.kind}
	if len(entries) == 0 || len(layout.members) == 0 {
		return merged{n, blended}
	}
	n.end = layout.end
	first, between := layout.members[0].lead, g.between(layout)
	for i, e := range entries {
		m := g.member(e, layout)
		switch {
		case i == 0:
			m.lead = first
		case m.lead == nil:
			m.lead = between
		}
		m.value = g.adapted(e.result, m.lead)
		n.members = append(n.members, m)
	}
	return merged{n, blended}
}

// between is the white space between the members of a container.
func (g *jsonMerge) between(n *node) []byte {
	switch {
	case len(n.members) > 1:
		return n.members[1].lead
	case bytes.Contains(n.members[0].lead, newline):
		return n.members[0].lead
	}
	return []byte(g.styles[g.lead].comma)
}

// member is a member of the result, still without its value. It has a lead of its
// own only where that may stay.
func (g *jsonMerge) member(e entry, layout *node) member {
	own, foreign := e.theirs, e.mine
	if g.lead == mine {
		own, foreign = e.mine, e.theirs
	}
	if own != nil {
		m := *own
		if own == &layout.members[0] {
			m.lead = nil
		}
		return m
	}
	m := member{key: foreign.key}
	if layout.kind == '{' {
		key := bytes.TrimSuffix(foreign.label, colonOf(foreign))
		m.label = append(append([]byte(nil), key...), colonOf(&layout.members[0])...)
	}
	return m
}

// adapted is a value as it is laid out behind the white space lead, on the side
// that leads.
func (g *jsonMerge) adapted(m merged, lead []byte) *node {
	n := m.value
	if m.from == g.lead || m.from == blended || !n.isContainer() {
		return n
	}
	var out bytes.Buffer
	lines := bytes.Contains(lead, newline) || lead == nil && g.styles[g.lead].lines
	switch {
	case g.styles[theirs] != g.styles[mine]:
		g.styles[g.lead].write(&out, n, string(indentation(lead)), lines)
	case !bytes.Contains(n.raw, newline):
		return n
	case !lines:
		g.styles[g.lead].write(&out, n, "", false)
	default: // the line of its last bracket is indented like that of its first
		from := append([]byte{'\n'}, indentation(bytes.TrimRight(n.raw, "]}"))...)
		to := append([]byte{'\n'}, indentation(lead)...)
		out.Write(bytes.ReplaceAll(n.raw, from, to))
	}
	return &node{kind: n.kind, raw: out.Bytes()}
}

// write lays out a value anew, beginning in a line with this indentation.
func (s style) write(out *bytes.Buffer, n *node, indent string, lines bool) {
	if len(n.members) == 0 {
		out.Write(n.raw)
		return
	}
	out.WriteByte(n.kind)
	for i := range n.members {
		m := &n.members[i]
		if i > 0 {
			out.WriteByte(',')
		}
		if lines {
			out.WriteString("\n" + indent + s.unit)
		} else if i > 0 {
			out.WriteString(s.comma)
		}
		if n.kind == '{' {
			out.Write(bytes.TrimSuffix(m.label, colonOf(m)))
			out.WriteString(s.colon)
		}
		s.write(out, m.value, indent+s.unit, lines)
	}
	if lines {
		out.WriteString("\n" + indent)
	}
	out.WriteByte(n.kind + 2) // ']' is two after '[', and '}' after '{'
}

// write writes a value as it was, or from its members.
func write(out *bytes.Buffer, n *node) {
	if n.raw != nil {
		out.Write(n.raw)
		return
	}
	out.WriteByte(n.kind)
	for i := range n.members {
		m := &n.members[i]
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(m.lead)
		out.Write(m.label)
		write(out, m.value)
		out.Write(m.tail)
	}
	out.Write(n.end)
	out.WriteByte(n.kind + 2)
}
