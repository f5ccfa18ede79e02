package policy

import "testing"

// FuzzPaths asks a policy about any path: it has an answer, and the same twice.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"a", "a/b.json", ".git/index", "x.db-wal", "\xff/**", "[", "{a,b}", "w/1/todo.json", "../a", ""} {
		f.Add(s)
	}
	p, err := Parse("p", []byte("[[alias]]\nname = 'a'\nroots = ['.', 'w/*']\n[[rule]]\nglob = ['**/*.json', 'a/{b,c}/[!x]?', '**/x/**']\nkey = 'directory'\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, p := range []*Policy{p, Default()} {
			if a, b := p.For(path).Rule, p.For(path).Rule; a != b || a == "" {
				t.Errorf("%q: %q and %q", path, a, b)
			}
			if a, b := p.LockName(path), p.LockName(path); a != b {
				t.Errorf("%q: %q and %q", path, a, b)
			}
		}
	})
}
