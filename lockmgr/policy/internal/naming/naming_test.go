package naming

import (
	"fmt"
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	long := strings.Repeat("x", MaxLen)
	for name, want := range map[string]bool{
		"a": true, "0": true, "a-b_c-0": true, "z9": true, long: true,
		"": false, long + "x": false, "A": false, "a b": false, "a/b": false, "é": false, "a\n": false, "\xff": false,
		"-": false, "-a": false, "a-": false, "_a": false, "a_": false, ".": false,
	} {
		if got := Valid(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
	if !strings.Contains(Rule, fmt.Sprintf("1 to %d of", MaxLen)) {
		t.Errorf("the rule is told as %q", Rule)
	}
}

func TestIsDirectory(t *testing.T) {
	for dir, want := range map[string]bool{
		"a": true, "a/b": true, ".a": true, "..a": true, "a/..b": true, "é": true,
		"": false, ".": false, "..": false, "/": false, "/a": false, "a/": false, "../a": false, "a/../b": false, "./a": false, "a//b": false, "a\x00": false,
	} {
		if got := IsDirectory(dir); got != want {
			t.Errorf("%q: %t, want %t", dir, got, want)
		}
	}
}

func TestDirAndJoin(t *testing.T) {
	for path, want := range map[string]string{"a/b/c": "a/b", "a/b": "a", "a": "", "": ""} {
		if got := Dir(path); got != want {
			t.Errorf("%q lies in %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"a/b/c", "a/b", "a"} {
		if got := Join(Dir(path), strings.TrimPrefix(path[len(Dir(path)):], "/")); got != path {
			t.Errorf("%q is joined as %q", path, got)
		}
	}
}
