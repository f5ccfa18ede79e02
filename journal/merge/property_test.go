package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A value is drawn small and from few pieces, so that sides meet.
func drawValue(t *rapid.T, depth int) any {
	kinds := 8
	if depth == 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.IntRange(0, 3).Draw(t, "number")
	case 1:
		return json.Number(rapid.SampledFrom([]string{"1.0", "1e2", "-0", "12345678901234567890"}).Draw(t, "long"))
	case 2:
		return rapid.SampledFrom([]string{"", "é", "a\nb", "\"", "x"}).Draw(t, "text")
	case 3:
		return rapid.Bool().Draw(t, "bool")
	case 4:
		return nil
	case 5:
		return drawArray(t, depth)
	}
	return drawObject(t, depth)
}

func drawObject(t *rapid.T, depth int) map[string]any {
	o := map[string]any{}
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "id", "a/b", "é\""}), 0, 5, rapid.ID).Draw(t, "keys") {
		o[k] = drawValue(t, depth-1)
	}
	return o
}

func drawArray(t *rapid.T, depth int) []any {
	a := []any{}
	ids := rapid.Bool().Draw(t, "ids")
	for i := range rapid.IntRange(0, 4).Draw(t, "length") {
		if ids {
			a = append(a, map[string]any{"id": i, "v": drawValue(t, 0)})
		} else {
			a = append(a, drawValue(t, depth-1))
		}
	}
	return a
}

// edit changes a value here and there.
func edit(t *rapid.T, v any, depth int) any {
	if rapid.IntRange(0, 9).Draw(t, "replace") == 0 {
		return drawValue(t, max(depth, 0))
	}
	switch v := v.(type) {
	case map[string]any:
		o := maps.Clone(v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				delete(o, k)
			case 1:
				o[k] = edit(t, v[k], depth-1)
			}
		}
		if rapid.Bool().Draw(t, "more") {
			o[rapid.SampledFrom([]string{"a", "b", "m", "n", "o"}).Draw(t, "key")] = drawValue(t, 1)
		}
		return o
	case []any:
		var a []any
		for _, item := range v {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
			case 1:
				a = append(a, edit(t, item, depth-1))
			case 2:
				a = append(a, item, drawValue(t, 1))
			default:
				a = append(a, item)
			}
		}
		if rapid.Bool().Draw(t, "more") {
			a = append(a, drawValue(t, 1))
		}
		return append([]any{}, a...)
	}
	return v
}

// layout writes a value in one of several styles.
func layout(t *rapid.T, v any) []byte {
	var b []byte
	var err error
	switch rapid.IntRange(0, 3).Draw(t, "style") {
	case 0:
		b, err = json.Marshal(v)
	case 1:
		b, err = json.MarshalIndent(v, "", "  ")
	case 2:
		b, err = json.MarshalIndent(v, "", "\t")
		b = append(b, '\n')
	default:
		b, err = json.Marshal(v)
		b = bytes.ReplaceAll(b, []byte("é"), []byte(`\u00e9`))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// threeSides draws three contents of a kind.
func threeSides(t *rapid.T, kind Kind) (base, theirs, mine []byte) {
	switch kind {
	case JSON:
		v := drawValue(t, 3)
		same := rapid.Bool().Draw(t, "same style")
		sides := []any{v, edit(t, v, 3), edit(t, v, 3)}
		if same {
			return plain(t, sides[0]), plain(t, sides[1]), plain(t, sides[2])
		}
		return layout(t, sides[0]), layout(t, sides[1]), layout(t, sides[2])
	case JSONLines:
		v := drawArray(t, 2)
		return records(t, v), records(t, edit(t, v, 2)), records(t, edit(t, v, 2))
	case Text:
	}
	v := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", ""}), 0, 8).Draw(t, "lines")
	return text(v), text(editLines(t, v)), text(editLines(t, v))
}

func plain(t *rapid.T, v any) []byte {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func records(t *rapid.T, v any) []byte {
	var b bytes.Buffer
	a, _ := v.([]any)
	for _, item := range a {
		line, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

func text(lines []string) []byte {
	var b []byte
	for _, l := range lines {
		b = append(append(b, l...), '\n')
	}
	return b
}

func editLines(t *rapid.T, lines []string) (edited []string) {
	line := rapid.SampledFrom([]string{"a", "b", "x", "y"})
	for _, l := range lines {
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0:
		case 1:
			edited = append(edited, line.Draw(t, "line"))
		case 2:
			edited = append(edited, line.Draw(t, "line"), l)
		default:
			edited = append(edited, l)
		}
	}
	if rapid.Bool().Draw(t, "more") {
		edited = append(edited, line.Draw(t, "line"))
	}
	return edited
}

var kinds = []Kind{Text, JSON, JSONLines}

// TestLaws checks what holds for any three contents.
func TestLaws(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				base, theirs, mine := threeSides(t, kind)
				checkLaws(t, kind, base, theirs, mine)
			})
		})
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkLaws(t fataler, kind Kind, base, theirs, mine []byte) {
	t.Helper()
	must := func(what string, want []byte, b, th, m []byte) {
		t.Helper()
		if got, err := Merge(kind, b, th, m); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, got %q, want %q", what, err, got, want)
		}
	}
	must("identity", base, base, base, base)
	must("only theirs", theirs, base, theirs, base)
	must("only mine", mine, base, base, mine)
	must("the same twice", mine, base, mine, mine)

	if bytes.Equal(base, theirs) || bytes.Equal(base, mine) || bytes.Equal(theirs, mine) {
		return // whatever they hold
	}
	before := [][]byte{slices.Clone(base), slices.Clone(theirs), slices.Clone(mine)}
	got, err := Merge(kind, base, theirs, mine)
	if !bytes.Equal(base, before[0]) || !bytes.Equal(theirs, before[1]) || !bytes.Equal(mine, before[2]) {
		t.Fatalf("the contents have changed")
	}
	other, otherErr := Merge(kind, base, mine, theirs)
	var c *Conflict
	if err != nil && (!errors.As(err, &c) || got != nil) {
		t.Fatalf("%q with %T", got, err)
	}
	if (err == nil) != (otherErr == nil) {
		t.Fatalf("not symmetric: %v, and %v the other way round", err, otherErr)
	}
	if err != nil {
		return
	}
	if a, b := unordered(t, kind, got), unordered(t, kind, other); a != b {
		t.Fatalf("not symmetric: %q, and %q the other way round", got, other)
	}
	// To merge a side once more changes nothing, where every value has a name.
	for _, side := range [][]byte{theirs, mine} {
		if kind != JSON || !allNamed(base, theirs, mine) {
			continue
		}
		if again, err := Merge(kind, base, side, got); err != nil || unordered(t, kind, again) != unordered(t, kind, got) {
			t.Fatalf("not idempotent: %q and then %q, %v", got, again, err)
		}
	}
}

// allNamed reports whether there are no arrays whose items have no ids.
func allNamed(contents ...[]byte) bool {
	for _, content := range contents {
		_, n, _, err := parse(content, make(values))
		if err != nil || !nodeNamed(n) {
			return false
		}
	}
	return true
}

func nodeNamed(n *node) bool {
	if n.kind == '[' && len(n.members) > 0 && idField(n) == "" {
		return false
	}
	return !slices.ContainsFunc(n.members, func(m member) bool { return !nodeNamed(m.value) })
}

// unordered is the content without what may differ between the two sides' views:
// the order of what both have added, and the style. It fails where JSON is not
// valid.
func unordered(t fataler, kind Kind, content []byte) string {
	t.Helper()
	switch kind {
	case JSON:
		return sortedValue(t, content)
	case JSONLines:
		var lines []string
		for line := range bytes.Lines(content) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines = append(lines, sortedValue(t, line))
			}
		}
		sort.Strings(lines)
		return strings.Join(lines, "\n")
	case Text:
	}
	return string(content)
}

func sortedValue(t fataler, content []byte) string {
	t.Helper()
	if !json.Valid(content) {
		t.Fatalf("not valid JSON: %q", content)
	}
	_, n, _, err := parse(content, make(values))
	if err != nil {
		t.Fatalf("%v: %q", err, content)
	}
	return sortedNode(n)
}

func sortedNode(n *node) string {
	var parts []string
	for _, m := range n.members {
		parts = append(parts, fmt.Sprintf("%q:%s", m.key, sortedNode(m.value)))
	}
	sort.Strings(parts)
	switch n.kind {
	case '0':
		return number(string(n.raw))
	case '"':
		return fmt.Sprintf("%q", unquote(n.raw))
	case '{', '[':
		return string(n.kind) + strings.Join(parts, ",")
	}
	return string(n.raw)
}

// TestDisjointKeys: whoever changes, adds or deletes other keys than the other gets
// everything, in any style.
func TestDisjointKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, theirs, mine, want := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
		for i := range rapid.IntRange(1, 12).Draw(t, "keys") {
			k := fmt.Sprintf("k%d", i)
			old, changed := drawValue(t, 2), drawValue(t, 2)
			owner := rapid.SampledFrom([]map[string]any{theirs, mine}).Draw(t, "owner")
			for _, side := range []map[string]any{base, theirs, mine, want} {
				side[k] = old
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				owner[k], want[k] = changed, changed
			case 1:
				delete(owner, k)
				delete(want, k)
			case 2:
				for _, side := range []map[string]any{base, theirs, mine} {
					delete(side, k)
				}
				owner[k], want[k] = changed, changed
			}
		}
		got, err := Merge(JSON, layout(t, base), layout(t, theirs), layout(t, mine))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sortedValue(t, layout(t, want)), sortedValue(t, got)); diff != "" {
			t.Fatalf("%s: %s", got, diff)
		}
	})
}

// TestDisjointLines: whoever changes other lines than the other gets everything.
func TestDisjointLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var base, theirs, mine, want []string
		for i := range rapid.IntRange(1, 40).Draw(t, "lines") {
			line := fmt.Sprintf("line %d", i)
			a, b, both := line, line, line
			switch rapid.IntRange(0, 3).Draw(t, "who") {
			case 0:
				a, both = line+" theirs", line+" theirs"
			case 1:
				b, both = line+" mine", line+" mine"
			}
			base, theirs, mine, want = append(base, line), append(theirs, a), append(mine, b), append(want, both)
		}
		got, err := Merge(Text, text(base), text(theirs), text(mine))
		if err != nil || !bytes.Equal(got, text(want)) {
			t.Fatalf("%v: got %q, want %q", err, got, text(want))
		}
		for _, side := range [][]string{theirs, mine} { // and once more
			again, err := Merge(Text, text(base), text(side), got)
			if err != nil || !bytes.Equal(again, got) {
				t.Fatalf("%v: got %q, and then %q", err, got, again)
			}
		}
	})
}

// TestMatch: counterparts are equal, ascending and, where everything is within
// reach of a small table, as many as can be had once unique items are matched.
func TestMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 3), func(i int) token { return token(i) }), 0, 12)
		a, b := items.Draw(t, "a"), items.Draw(t, "b")
		to, ok := match(a, b)
		if !ok {
			t.Fatal("out of bounds")
		}
		last := -1
		for i, p := range to {
			if p < 0 {
				continue
			}
			if p <= last || a[i] != b[p] {
				t.Fatalf("%v", to)
			}
			last = p
		}
		m := matcher{a: a, b: b, to: slices.Repeat([]int{-1}, len(a))}
		m.shortest(0, len(a), 0, len(b))
		found := 0
		for _, p := range m.to {
			if p >= 0 {
				found++
			}
		}
		if want := longestCommon(a, b); found != want {
			t.Fatalf("%v: %d common items, there are %d", m.to, found, want)
		}
	})
}

func longestCommon(a, b []token) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			above := row[j+1]
			switch {
			case a[i] == b[j]:
				row[j+1] = diagonal + 1
			default:
				row[j+1] = max(row[j], above)
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// FuzzMerge merges any bytes.
func FuzzMerge(f *testing.F) {
	f.Add(uint8(Text), []byte("a\nb\n"), []byte("A\nb\n"), []byte("a\nB\n"))
	f.Add(uint8(JSON), []byte(`{"a": [1, {"id": 1}]}`), []byte(`{"a": [1, {"id": 2}]}`), []byte("{\n\t\"a\": [1, {\"id\": 1}], \"\\u00e9\": -1.50e+3\n}"))
	f.Add(uint8(JSONLines), []byte("1\n"), []byte("1\n\n{}\r\n"), []byte("1\n[1]"))
	f.Fuzz(func(t *testing.T, kind uint8, base, theirs, mine []byte) {
		k := kinds[int(kind)%len(kinds)]
		checkLaws(t, k, base, theirs, mine)
		// The same change twice, with something at each end.
		checkLaws(t, k, base, append(slices.Clone(theirs), base...), append(slices.Clone(base), mine...))
	})
}
