package sessionstate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// all are the states.
func all() (list []State) {
	for st := range next {
		list = append(list, State(st))
	}
	return list
}

// TestStates holds the drawing of the package: every state can be reached, a
// session that has ended never goes on, and one that is nobody's stays so.
func TestStates(t *testing.T) {
	if len(next) != len(names) {
		t.Fatalf("%d states have successors, %d have names", len(next), len(names))
	}
	reached := map[State]bool{Writing: true}
	for todo := []State{Writing}; len(todo) > 0; todo = todo[1:] {
		from := todo[0]
		for _, to := range next[from] {
			if from.HasEnded() && !to.HasEnded() {
				t.Errorf("%v has ended, and goes on as %v", from, to)
			}
			if from.IsNobodys() && !to.IsNobodys() {
				t.Errorf("%v is nobody's, and %v is not", from, to)
			}
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	for _, st := range all() {
		if !reached[st] {
			t.Errorf("nothing becomes %v", st)
		}
	}
}

// The drawing in the package's comment has the arrows of the code, and no other.
func TestDrawing(t *testing.T) {
	drawn := drawnArrows(t)
	coded := map[string]bool{}
	for from, list := range next {
		for _, to := range list {
			word := func(st State) string {
				first, rest, _ := strings.Cut(st.String(), " ")
				if rest != "" {
					first += strings.ToUpper(rest[:1]) + rest[1:]
				}
				return first
			}
			coded[word(State(from))+" "+word(to)] = true
		}
	}
	for arrow := range coded {
		if !drawn[arrow] {
			t.Errorf("%s: not in the drawing", arrow)
		}
	}
	for arrow := range drawn {
		if !coded[arrow] {
			t.Errorf("%s: in the drawing alone", arrow)
		}
	}
}

// drawnArrows are the arrows in the package's comment: "from to".
func drawnArrows(t *testing.T) map[string]bool {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]rune
	for line := range strings.SplitSeq(string(doc), "\n") {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			lines = append(lines, []rune(line))
		}
	}
	arrows := map[string]bool{}
	for y, line := range lines {
		for x, r := range line {
			if r != '►' {
				continue
			}
			to := strings.Fields(string(line[x+1:]))[0]
			from, at := y, x-1
			for ; line[at] == '─'; at-- {
			}
			for strings.ContainsRune("├└│", lines[from][at]) { // up to where the way has branched
				from--
			}
			words := strings.FieldsFunc(string(lines[from][:at]), func(r rune) bool { return !unicode.IsLetter(r) })
			arrows[words[len(words)-1]+" "+to] = true
		}
	}
	return arrows
}

// What a state means is written down a second time, state by state.
func TestMeaning(t *testing.T) {
	goesOn := []State{Writing, Detached}
	nobodys := []State{Detached, Dropped, Apart}
	var words []string
	for _, st := range all() {
		if st.HasEnded() == slices.Contains(goesOn, st) {
			t.Errorf("%v: has ended: %v", st, st.HasEnded())
		}
		if st.IsNobodys() != slices.Contains(nobodys, st) {
			t.Errorf("%v: is nobody's: %v", st, st.IsNobodys())
		}
		if slices.Contains(words, st.String()) {
			t.Errorf("two states are called %v", st)
		}
		words = append(words, st.String())
	}
	if got, want := fmt.Sprint(words), "[writing ending going live committed live rolled back detached dropped apart]"; got != want {
		t.Errorf("the states are called %v, want %v", got, want)
	}
}
