package merge

import "bytes"

// mergeText joins text by lines.
func mergeText(base, theirs, mine []byte) ([]byte, error) {
	for _, content := range [][]byte{base, theirs, mine} {
		if bytes.Count(content, newline) >= maxItems {
			return nil, &Conflict{Reason: tooLarge}
		}
	}
	names := make(map[string]token)
	_, b := tokensOf(base, names)
	theirLines, t := tokensOf(theirs, names)
	myLines, m := tokensOf(mine, names)
	s, err := newSequences(b, t, m)
	if err != nil {
		return nil, err
	}
	s.careful = true
	s.refuse = refuseLine
	picks, err := s.merge()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for n, p := range picks {
		line, err := pickLine(s, p, theirLines, myLines)
		if err != nil {
			return nil, err
		}
		if n < len(picks)-1 && !bytes.HasSuffix(line, newline) {
			return nil, refuseLine(p.mine, bothChanged)
		}
		out.Write(line)
	}
	return out.Bytes(), nil
}

var newline = []byte("\n")

// pickLine is the line of one side, or of both.
func pickLine(s *sequences, p pick, theirLines, myLines [][]byte) ([]byte, error) {
	switch {
	case p.mine < 0:
		return theirLines[p.theirs], nil
	case p.theirs < 0, p.base >= 0 && s.theirs.kept[p.base], s.theirs.side[p.theirs] == s.mine.side[p.mine]:
		return myLines[p.mine], nil
	case s.mine.kept[p.base]:
		return theirLines[p.theirs], nil
	}
	return nil, refuseLine(p.mine, bothChanged)
}

// tokensOf are the lines of a content, each with its newline, and what stands for
// them.
func tokensOf(content []byte, names map[string]token) (lines [][]byte, tokens []token) {
	for line := range bytes.Lines(content) {
		t, ok := names[string(line)]
		if !ok {
			t = token(len(names))
			names[string(line)] = t
		}
		lines, tokens = append(lines, line), append(tokens, t)
	}
	return lines, tokens
}

func refuseLine(mine int, reason string) error {
	return &Conflict{Line: max(mine, 0) + 1, Reason: reason}
}
