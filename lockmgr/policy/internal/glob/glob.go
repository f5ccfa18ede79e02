// Package glob matches paths below a root with globs, in the syntax of
// github.com/bmatcuk/doublestar, case-sensitively. Package policy says what one means: a
// glob without '/' is matched against the last component of a path, any other one against
// the whole path, whether or not it begins with a '/'.
//
// The package is pure: it compares strings, and opens nothing. A Pattern does not change,
// and may be used by several goroutines at once.
package glob

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Pattern is one glob, prepared. Most globs are a literal name or "*" and a literal suffix;
// those need no pattern matching.
type Pattern struct {
	kind   kind
	text   string // the literal, or the pattern
	onBase bool   // matched against the last component only
}

type kind uint8

const (
	byPattern  kind = iota
	byLiteral       // "nohup.out"
	bySuffix        // "*.db": '*' also matches nothing
	byAncestor      // "**/.git/**": a component of that name, at any depth
)

// meta are the characters with a meaning in globs.
const meta = `*?[]{}\`

// IsLiteral reports whether a glob, or a part of one, stands for itself only.
func IsLiteral(glob string) bool { return !strings.ContainsAny(glob, meta) }

// New prepares a glob that Check has nothing against.
func New(glob string) Pattern {
	m := Pattern{text: glob}
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

// Match reports whether the glob matches a path relative to the root, whose last component
// is base.
func (m *Pattern) Match(path, base string) bool {
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

// Base is the last component of a relative path.
func Base(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// Check says why a glob cannot be used, or "".
func Check(glob string) string {
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

// Above returns the directories that a glob names on the way to what it matches: "a" and
// "a/b" of "a/b/c*/d", none of "*/c" or "c".
func Above(pattern string) (dirs []string) {
	pattern = strings.TrimPrefix(pattern, "/")
	for i := range len(pattern) {
		switch {
		case pattern[i] != '/':
		case IsLiteral(pattern[:i]):
			dirs = append(dirs, pattern[:i])
		default:
			return dirs
		}
	}
	return dirs
}

// Escape is a glob that matches a path and nothing else.
func Escape(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte(meta, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Below returns globs that match below a directory what these match below the root. The
// directory is not the root itself.
func Below(dir string, globs []string) []string {
	out := make([]string, len(globs))
	for i, pattern := range globs {
		if !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern // at any depth
		}
		out[i] = Escape(dir) + "/" + strings.TrimPrefix(pattern, "/")
	}
	return out
}
