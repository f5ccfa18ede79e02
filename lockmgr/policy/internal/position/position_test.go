package position

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

const document = `a = 1
[t]
b.c = [1,
  2, [3]]
d = {e = 4, f.g = 5}

[[l]]
h = 1
[[l]]
[l.m]
i = 1
[[l.n]]
j = 1
[[l.n]]

k = """
x
""" # comment
`

func TestLine(t *testing.T) {
	m := Locate([]byte(document))
	for path, want := range map[string]int{
		"a": 1, "t": 2, "t b": 3, "t b c": 3, "t b c 0": 3, "t b c 1": 4, "t b c 2 0": 4, "t d e": 5, "t d f g": 5,
		"l 0": 7, "l 0 h": 8, "l 1": 9, "l 1 m": 10, "l 1 m i": 11, "l 1 n 0": 12, "l 1 n 0 j": 13, "l 1 n 1": 14, "l 1 n 1 k": 16,
	} {
		if got := m.Line(nodeOf(path)); got != want {
			t.Errorf("%s is in line %d, want %d", path, got, want)
		}
	}
}

// What is not written is where it would be: in the nearest node around it.
func TestLineOfWhatIsMissing(t *testing.T) {
	m := Locate([]byte(document))
	for path, want := range map[string]int{"x": 1, "t x": 2, "t b c 7": 3, "l 1 m x y": 10, "l 5": 7} {
		if got := m.Line(nodeOf(path)); got != want {
			t.Errorf("%s is in line %d, want %d", path, got, want)
		}
	}
	if got := m.Line(Root); got != 1 {
		t.Errorf("the document is in line %d", got)
	}
}

func nodeOf(path string) Node {
	n := Root
	for _, part := range strings.Fields(path) {
		if '0' <= part[0] && part[0] <= '9' {
			n = n.Item(int(part[0] - '0'))
		} else {
			n = n.Key(part)
		}
	}
	return n
}

// Every node of a document is in one of its lines.
func FuzzLocate(f *testing.F) {
	f.Add(document)
	f.Fuzz(func(t *testing.T, text string) {
		if toml.Unmarshal([]byte(text), &map[string]any{}) != nil {
			return
		}
		last := strings.Count(text, "\n") + 1
		for n, line := range Locate([]byte(text)) {
			if line < 1 || line > last {
				t.Errorf("%q is in line %d of %d", n, line, last)
			}
		}
	})
}
