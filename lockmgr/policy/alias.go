package policy

import (
	"fmt"
	"strings"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
	"latchfs/lockmgr/policy/internal/position"
)

// Alias makes several directories one for the lock table: a file below any of
// the roots shares its lock with the file of the same path below every other,
// as the copies of a file in git worktrees do (SEED M4).
type Alias struct {
	// Name is a lock name as in SEED T2, and no other alias has it.
	Name string
	// Roots are globs over whole paths of directories, at least one; "." is the
	// data root.
	Roots []string

	// origin is where the alias was written: "policy.toml:12".
	origin string
}

// Origin says where the alias was written: "FILE:LINE".
func (a Alias) Origin() string { return a.origin }

// aliasMatcher is an alias, prepared.
type aliasMatcher struct {
	prefix string // of the names that it gives
	roots  []glob.Pattern
}

func newAliasMatcher(a Alias) aliasMatcher {
	m := aliasMatcher{prefix: "//alias/" + a.Name + "/"}
	for _, root := range a.Roots {
		// The '/' keeps a root without one from matching at any depth.
		m.roots = append(m.roots, glob.New("/"+strings.TrimPrefix(dataRoot(root), "/")))
	}
	return m
}

// dataRoot spells the data root as paths do.
func dataRoot(root string) string {
	if root == "." {
		return ""
	}
	return root
}

// innermost returns the longest of path and the directories above it that is a
// root.
func (m *aliasMatcher) innermost(path string) (root string, ok bool) {
	for dir := path; ; dir = naming.Dir(dir) {
		for i := range m.roots {
			if m.roots[i].Match(dir, "") {
				return dir, true
			}
		}
		if dir == "" {
			return "", false
		}
	}
}

// name returns what the alias calls a path, which is the path itself for a root,
// and whether the alias decides.
func (m *aliasMatcher) name(path string) (string, bool) {
	root, ok := m.innermost(path)
	if !ok || root == path {
		return path, ok
	}
	return m.prefix + strings.TrimPrefix(path[len(root):], "/"), true
}

// aliases reads the [[alias]] tables.
func (p *parser) aliases(at position.Node, v any) []Alias {
	var aliases []Alias
	lines := map[string]int{}
	for i, v := range p.Tables(at, keyAlias, v, "an alias") {
		at := at.Item(i)
		a := p.alias(at, v)
		if a.Name != "" {
			if first, taken := lines[a.Name]; taken {
				p.Fail(at.Key(keyName), "there is an alias %q already, in line %d", a.Name, first)
			} else {
				lines[a.Name] = p.Line(at.Key(keyName))
			}
		}
		a.origin = p.Where(at)
		aliases = append(aliases, a)
	}
	return aliases
}

func (p *parser) alias(at position.Node, v any) Alias {
	var a Alias
	table := p.Table(at, v, aliasKeys)
	if table == nil {
		return a
	}
	for _, key := range aliasKeys {
		if table[key] == nil {
			p.Fail(at, "the alias has no %s", key)
		}
	}
	for key, v := range table {
		at := at.Key(key)
		switch key {
		case keyName:
			a.Name = p.name(at, v)
		case keyRoots:
			a.Roots = p.Strings(at, key, v, 1, checkRoot)
		default:
			p.Unknown(at, key, aliasKeys)
		}
	}
	return a
}

// name reads the name of an alias, "" if it is none.
func (p *parser) name(at position.Node, v any) string {
	name, ok := v.(string)
	switch {
	case !ok:
		p.Fail(at, "name must be a string")
		return ""
	case !naming.Valid(name):
		p.Fail(at, "bad name %q: %s", name, naming.Rule)
		return ""
	}
	return name
}

// checkRoot says why a glob cannot be used for the root of an alias, or "".
func checkRoot(root string) string {
	switch {
	case root == ".":
		return ""
	case root == "":
		return `an empty root matches nothing: the data root is "."`
	case root == "/":
		return `bad root "/": the data root is "."`
	case strings.HasSuffix(root, "/"):
		return fmt.Sprintf("bad root %q: a directory is written without a '/' at its end", root)
	case root == "**", strings.HasSuffix(root, "/**"):
		return fmt.Sprintf("bad root %q: every path below a directory would be a root, and no file below one", root)
	}
	return strings.Replace(glob.Check(root), "bad glob", "bad root", 1)
}
