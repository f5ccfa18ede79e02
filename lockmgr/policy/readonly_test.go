package policy

import "testing"

// A directory's name counts where a rule names it to make files below read-only, and not where
// the rule would hold under other names, too.
func TestHoldsReadOnly(t *testing.T) {
	p, err := Parse("policy.toml", []byte(`
[[rule]]
glob = ["frozen/**", "/a/b*/**/c.json", "**/kept/*.toml", "{x/y,z}/w", "*.ro", "p/q/r.json"]
mode = "readonly"

[[rule]]
glob = "live/**"
mode = "live"
`))
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		"frozen": true, "frozen/d": false, "d/frozen": false, "frozen2": false,
		"a": true, "a/b": false, "a/c": false, "b": false, "d/a": false,
		"p": true, "p/q": true, "p/q/r.json": false,
		"kept": false, "d/kept": false, "x/y": false, "z": false, "d.ro": false, "live": false, "": false,
	} {
		if got := p.HoldsReadOnly(dir); got != want {
			t.Errorf("%q: %t, want %t", dir, got, want)
		}
	}
}
