package policy

import (
	"testing"

	"latchfs/lockmgr/policy/lockfile"
)

// FuzzPaths asks a policy about any path: it has an answer, and the same twice.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"a", "a/b.json", ".git/index", "x.db-wal", "\xff/**", "[", "{a,b}", "w/1/todo.json", "../a", "", "l/a/b.lock", "l/.lock", "x/Y.lock", "l/a.lock/owner"} {
		f.Add(s)
	}
	p, err := Parse("p", []byte("[[alias]]\nname = 'a'\nroots = ['.', 'w/*']\n[[rule]]\nglob = ['**/*.json', 'a/{b,c}/[!x]?', '**/x/**']\nkey = 'directory'\n"+
		"[[claim]]\nglob = 'l/**/*.lock'\nformat = 'owner-dir'\ncovers = 'file'\nroot = 'l'\ntree = 't'\n"+
		"[[claim]]\nglob = '*.lock'\nformat = 'lock/v1'\ncovers = 'name'\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, p := range []*Policy{p, Default()} {
			if a, b := p.For(path).Rule, p.For(path).Rule; a != b || a == "" {
				t.Errorf("%q: %q and %q", path, a, b)
			}
			checkTarget(t, p, path)
			if a, b := p.LockName(path), p.LockName(path); a != b {
				t.Errorf("%q: %q and %q", path, a, b)
			}
		}
	})
}

// checkTarget asks what a claim file stands for: never for something outside the
// mount, and never for itself.
func checkTarget(t *testing.T, p *Policy, path string) {
	c := p.ClaimFile(path)
	if c == nil {
		return
	}
	target, err := c.Target(path)
	switch {
	case err != nil:
	case target.Covers != c.Covers, target.Path == path, (target.Path == "") != (c.Covers != lockfile.CoversFile), (target.Name == "") != (c.Covers != lockfile.CoversName):
		t.Errorf("%q stands for %+v", path, target)
	}
	if s := p.For(path); err == nil && (s.Mode != Atomic || s.LostUpdate != IgnoreLost || s.Key != FileKey) {
		t.Errorf("%q: %+v", path, s)
	}
}
