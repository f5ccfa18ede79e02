package policy

import (
	"slices"
	"testing"
)

// A policy tells which files a directory has to be looked at for, and which names
// may change what was found.
func TestMarkers(t *testing.T) {
	p, err := Parse("p.toml", []byte(`
[defaults]
live-if = ["STORE", "CURRENT+MANIFEST-*"]
[[rule]]
glob = "a/**"
live-if = ["a?b", "STORE"]
[[rule]]
glob = "plain/**"
live-if = []
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Markers(), []string{"STORE", "CURRENT+MANIFEST-*", "a?b"}; !slices.Equal(got, want) {
		t.Errorf("markers %q, want %q", got, want)
	}
	for name, want := range map[string]bool{
		"STORE": true, "CURRENT": true, "MANIFEST-000001": true, "axb": true,
		"store": false, "CURRENT+MANIFEST-*": false, "MANIFEST": false, "ab": false, "": false,
	} {
		if p.MayMark(name) != want {
			t.Errorf("%q may mark: %t", name, !want)
		}
	}
	if got := p.For("plain/x").LiveIf; got != nil {
		t.Errorf("plain/x: %q", got)
	}
	if got, want := MarkerFiles("CURRENT+MANIFEST-*"), []string{"CURRENT", "MANIFEST-*"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if !MarkerMatches("MANIFEST-*", "MANIFEST-1") || MarkerMatches("CURRENT", "CURRENT2") {
		t.Error("matches")
	}
}
