package policy

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// matcher is one glob, prepared, with the settings it decides for. Most globs
// are a literal name or "*" and a literal suffix; those need no pattern
// matching.
type matcher struct {
	kind     matchKind
	text     string // the literal, or the pattern
	onBase   bool   // matched against the last component only
	settings Settings
}

type matchKind uint8

const (
	byPattern  matchKind = iota
	byLiteral            // "nohup.out"
	bySuffix             // "*.db": '*' also matches nothing
	byAncestor           // "**/.git/**": a component of that name, at any depth
)

// meta are the characters with a meaning in globs.
const meta = `*?[]{}\`

func newMatcher(glob string) matcher {
	m := matcher{text: glob}
	if !strings.Contains(glob, "/") {
		m.onBase = true
	} else {
		m.text = strings.TrimPrefix(glob, "/")
	}
	suffix, starred := strings.CutPrefix(m.text, "*")
	switch {
	case !strings.ContainsAny(m.text, meta):
		m.kind = byLiteral
	case m.onBase && starred && !strings.ContainsAny(suffix, meta):
		m.kind, m.text = bySuffix, suffix
	default:
		name, ok := strings.CutPrefix(m.text, "**/")
		name, ok2 := strings.CutSuffix(name, "/**")
		if ok && ok2 && !strings.ContainsAny(name, meta+"/") {
			m.kind, m.text = byAncestor, name
		}
	}
	return m
}

// match reports whether the glob matches path, whose last component is base.
func (m *matcher) match(path, base string) bool {
	s := path
	if m.onBase {
		s = base
	}
	switch m.kind {
	case byLiteral:
		return s == m.text
	case bySuffix:
		return strings.HasSuffix(s, m.text)
	case byAncestor:
		return hasComponent(s, m.text)
	default:
		return doublestar.MatchUnvalidated(m.text, s)
	}
}

// hasComponent reports whether one of path's components is name.
func hasComponent(path, name string) bool {
	for {
		first, rest, more := strings.Cut(path, "/")
		if first == name {
			return true
		}
		if !more {
			return false
		}
		path = rest
	}
}

// baseName is the last component of a relative path.
func baseName(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// checkGlob says why a glob cannot be used, or "".
func checkGlob(glob string) string {
	switch {
	case glob == "":
		return "an empty glob matches nothing"
	case strings.ContainsRune(glob, 0):
		return fmt.Sprintf("bad glob %q: a file name has no NUL", glob)
	case !doublestar.ValidatePattern(glob):
		return fmt.Sprintf("bad glob %q: a bracket, a brace or a backslash is not closed", glob)
	case strings.HasSuffix(glob, "/"):
		return fmt.Sprintf("bad glob %q: what is below a directory is %q", glob, glob+"**")
	}
	for c := range strings.SplitSeq(strings.TrimPrefix(glob, "/"), "/") {
		switch c {
		case "":
			return fmt.Sprintf("bad glob %q: empty component", glob)
		case ".", "..":
			return fmt.Sprintf("bad glob %q: paths have no %q component", glob, c)
		}
	}
	return ""
}
