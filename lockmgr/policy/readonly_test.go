package policy

import "testing"

// A directory's name counts where a rule makes files below read-only by it, and not where the
// rule would hold under any name.
func TestHoldsReadOnly(t *testing.T) {
	p, err := Parse("policy.toml", []byte(`
[[rule]]
glob = ["frozen/**", "/a/b*/**/c.json", "**/kept/*.toml", "{x/y,z}/w", "*.ro"]
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
		"a": true, "a/b": true, "a/bc": true, "a/c": false, "b": false, "d/a": false,
		"kept": true, "d/kept": true, "d/e/kept": true, "d": false,
		"x/y": true, "z": true, "d.ro": false, "live": false, "": false,
	} {
		if got := p.HoldsReadOnly(dir); got != want {
			t.Errorf("%q: %t, want %t", dir, got, want)
		}
	}
}
