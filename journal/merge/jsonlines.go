package merge

import "bytes"

// mergeJSONLines joins three files of JSON Lines by their records.
func mergeJSONLines(base, their, my []byte) ([]byte, error) {
	ids := make(values)
	var files [3]*node
	for i, content := range [][]byte{base, their, my} {
		n, err := readLines(content, ids)
		if err != nil {
			return nil, sayWhose(err, i)
		}
		files[i] = n
	}
	s := linesStyle(files[1], files[2])
	g := &jsonMerge{styles: [2]style{s, s}}
	at := func(i int) *place { return &place{line: max(i, 0) + 1} }
	entries, err := g.items(files[0], files[1], files[2], at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, e := range entries {
		if i > 0 {
			out.Write(files[1].lineEnd(files[2]))
		}
		m := e.theirs
		if m == nil {
			m = e.mine
		}
		out.Write(m.lead)
		write(&out, e.result.value)
		out.Write(m.tail)
	}
	if endsLine(base, their, my) && len(entries) > 0 {
		out.Write(files[1].lineEnd(files[2]))
	}
	if _, err := readLines(out.Bytes(), make(values)); err != nil {
		return nil, &Conflict{Reason: "the result would not be valid JSON Lines"}
	}
	return out.Bytes(), nil
}

// linesStyle is the style of the first record.
func linesStyle(files ...*node) style {
	for _, f := range files {
		for i := range f.members {
			if n := f.members[i].value; n.isContainer() {
				return styleOf(n)
			}
		}
	}
	return style{}
}

// endsLine tells whether the result ends with a newline: as theirs, unless only
// mine has changed that.
func endsLine(base, their, my []byte) bool {
	ends := func(b []byte) bool { return bytes.HasSuffix(b, newline) }
	if len(base) > 0 && ends(their) == ends(base) || len(their) == 0 {
		return ends(my)
	}
	return ends(their)
}

// lineEnd is what the lines of the file, or else of the other, end with. The end of
// a file is that of its first line.
func (n *node) lineEnd(other *node) []byte {
	for _, of := range []*node{n, other} {
		if len(of.end) > 0 {
			return of.end
		}
	}
	return newline
}

// readLines reads the records, as the members of an array.
func readLines(content []byte, ids values) (*node, error) {
	if bytes.Count(content, newline) >= maxItems {
		return nil, &Conflict{Reason: tooLarge}
	}
	file := &node{kind: '['}
	number := 0
	count := 0
	for line := range bytes.Lines(content) {
		number++
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, newline), []byte("\r"))
		if len(file.end) == 0 && bytes.HasSuffix(line, newline) {
			file.end = line[len(text):]
		}
		if len(bytes.TrimSpace(text)) == 0 {
			file.members = append(file.members, member{value: &node{kind: ' ', id: ids.id(" "), raw: text}})
			continue
		}
		lead, value, trail, err := parse(text, ids)
		if err != nil {
			c := *err.(*Conflict) //nolint:errorlint // our own, made by parse
			c.Line = number
			return nil, &c
		}
		if count += bytes.Count(text, []byte{','}); count > 2*maxValues {
			return nil, &Conflict{Reason: tooLarge}
		}
		file.members = append(file.members, member{lead: lead, value: value, tail: trail})
	}
	return file, nil
}
