package policy

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"latchfs/lockmgr/policy/internal/reading"
	"latchfs/lockmgr/policy/lockfile"
)

const referenceFile = "../../docs/policy.md"

//go:embed reference.md.tmpl
var referenceText string

var update = flag.Bool("update", false, "write docs/policy.md anew")

// docs/policy.md says what the code does: the keys, their values and defaults come
// from the parser and the defaults, the sentences from reference.md.tmpl. A key
// without a section of its own fails the test, and so does a value that its section
// does not explain.
func TestReference(t *testing.T) {
	r := newReference(t)
	text := r.render(t)
	for _, keys := range [][]string{documentKeys, ruleKeys, aliasKeys, boundKeys} {
		for _, key := range keys {
			if !r.written[key] {
				t.Errorf("reference.md.tmpl does not document %s: add {{key %q}} and its sentences", key, key)
			}
		}
	}
	r.checkClaims(t)
	for key, words := range r.words {
		section := sectionOf(text, key)
		for _, word := range words {
			if !strings.Contains(section, "\n- ") || !strings.Contains(section, fmt.Sprintf("`%q`", word)) {
				t.Errorf("reference.md.tmpl, %s: nothing explains the value %q", key, word)
			}
		}
	}
	if *update {
		if err := os.WriteFile(referenceFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	there, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(there), text); diff != "" {
		t.Errorf("docs/policy.md is out of date; run make docs:\n%s", diff)
	}
}

// reference fills in the template.
type reference struct {
	defaults map[string]any      // the document of examples/policies/default.toml
	values   map[string]string   // what a key takes, in the words of the parser
	words    map[string][]string // the words that a key takes, where it takes some
	written  map[string]bool
	claims   *reference // of the keys of a claim, of which some are also those of a rule
}

// newReference asks the parser what it takes. The defaults are those of the example,
// which TestExample and TestExampleIsComplete hold to the code.
func newReference(t *testing.T) *reference {
	t.Helper()
	text, err := os.ReadFile("../../examples/policies/default.toml")
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{values: map[string]string{}, words: map[string][]string{}, written: map[string]bool{}}
	if err := toml.Unmarshal(text, &r.defaults); err != nil {
		t.Fatal(err)
	}
	r.ask("", documentKeys)
	r.ask("[[rule]]\n", ruleKeys)
	r.ask("[history]\n", boundKeys)
	r.ask("[[alias]]\n", aliasKeys)
	r.claims = &reference{values: map[string]string{}, words: map[string][]string{}, written: map[string]bool{}}
	r.claims.ask("[[claim]]\n", lockfile.Keys())
	return r
}

var quotedWord = regexp.MustCompile(`"([a-z-]+)"`)

// ask gives each key values that no key takes; what the parser answers says what
// it does take.
func (r *reference) ask(table string, keys []string) {
	for _, key := range keys {
		if _, known := r.values[key]; known {
			continue
		}
		if _, value, ok := strings.Cut(complaint(table+key+" = 2006-01-02", key), "must be "); ok {
			r.values[key] = value
		}
		if _, list, ok := strings.Cut(complaint(table+key+` = "?"`, key), "must be one of "); ok {
			r.words[key] = wordsIn(list)
		}
		if _, list, ok := strings.Cut(complaint(table+key+` = "?"`, key), "known are "); ok {
			r.words[key] = strings.Split(list, ", ")
		}
	}
}

func wordsIn(list string) []string {
	var words []string
	for _, m := range quotedWord.FindAllStringSubmatch(list, -1) {
		words = append(words, m[1])
	}
	return words
}

// complaint is what is wrong with the key in a policy.
func complaint(text, key string) string {
	_, err := Parse("p", []byte(text))
	var all Errors
	errors.As(err, &all)
	for _, e := range all {
		if strings.Contains(e.Reason, key+" must") || strings.Contains(e.Reason, "bad "+key+" ") {
			return e.Reason
		}
	}
	return ""
}

func (r *reference) render(t *testing.T) string {
	t.Helper()
	tmpl, err := template.New("reference").Funcs(template.FuncMap{
		"key": r.key, "claimkey": r.claimKey, "table": r.table, "builtin": r.builtin,
	}).Parse(referenceText)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// key begins the section of a key.
func (r *reference) key(key string) (string, error) {
	name := key
	switch {
	case r.written[key]:
		return "", fmt.Errorf("%s is documented twice", key)
	case !slices.ContainsFunc([][]string{documentKeys, ruleKeys, aliasKeys}, func(keys []string) bool { return slices.Contains(keys, key) }):
		return "", fmt.Errorf("the parser does not know the key %s", key)
	case key == keyDefaults:
		name = "[" + key + "]"
	case key == keyRule, key == keyAlias, key == keyClaim:
		name = "[[" + key + "]]"
	}
	r.written[key] = true
	heading := "### `" + name + "`"
	var facts []string
	if value := r.values[key]; value != "" && name == key {
		facts = append(facts, "Value: "+value+".")
	}
	if v, ok := r.defaultOf(key); ok {
		facts = append(facts, "Default: `"+literal(v)+"`.")
	}
	if len(facts) == 0 {
		return heading, nil
	}
	return heading + "\n\n" + strings.Join(facts, " "), nil
}

// claimKey begins the item of a key of a claim.
func (r *reference) claimKey(key string) (string, error) {
	if r.claims.written[key] || !slices.Contains(lockfile.Keys(), key) {
		return "", fmt.Errorf("%s is documented twice, or is none of a claim", key)
	}
	r.claims.written[key] = true
	if value := r.claims.values[key]; value != "" {
		return "### `" + key + "` of a claim\n\nValue: " + value + ".", nil
	}
	return "### `" + key + "` of a claim", nil
}

// checkClaims finds the keys of a claim, and their words, that nothing explains.
func (r *reference) checkClaims(t *testing.T) {
	t.Helper()
	for _, key := range lockfile.Keys() {
		if !r.claims.written[key] {
			t.Errorf("reference.md.tmpl does not document %s of a claim: add {{claimkey %q}} and its sentences", key, key)
		}
	}
	_, template, _ := strings.Cut(referenceText, "{{claimkey")
	for key, words := range r.claims.words {
		for _, word := range words {
			if !strings.Contains(template, fmt.Sprintf("`%q`", word)) {
				t.Errorf("reference.md.tmpl: nothing explains the value %q of %s of a claim", word, key)
			}
		}
	}
}

// defaultOf finds what holds where a policy does not set a key. The example writes
// the built-in rules out, and turns them off for that.
func (r *reference) defaultOf(key string) (any, bool) {
	if key == keyBuiltin {
		return true, true
	}
	if slices.Contains(settingKeys, key) {
		defaults, _ := r.defaults[keyDefaults].(map[string]any)
		v, ok := defaults[key]
		return v, ok
	}
	if key == keyActorEnv {
		return r.defaults[key], true
	}
	return nil, false
}

// table writes the section of the stores' limits, which have the same keys.
func (r *reference) table(stores ...string) (string, error) {
	var b strings.Builder
	about := map[string]string{
		keyHistory:  "the earlier versions of all files together",
		keyRejected: "the bytes of refused writes",
	}
	for _, store := range stores {
		limits, _ := r.defaults[store].(map[string]any)
		if about[store] == "" || limits == nil {
			return "", fmt.Errorf("no limits of %s", store)
		}
		fmt.Fprintf(&b, "### `[%s]`\n\nThe limits of %s; the oldest go first.\n\n", store, about[store])
		fmt.Fprintf(&b, "- `max-bytes`: %s. Default: `%s`.\n", r.values[keyMaxBytes], literal(limits[keyMaxBytes]))
		fmt.Fprintf(&b, "- `max-age`: a duration, also in days, as in `\"30d\"`; `\"0s\"` is any age. Default: `%s`.\n\n", literal(limits[keyMaxAge]))
		if store == keyRejected {
			r.written[store] = true
		}
	}
	r.written[keyMaxBytes], r.written[keyMaxAge] = true, true
	return strings.TrimRight(b.String(), "\n"), nil
}

// builtin writes the built-in rules out.
func (r *reference) builtin() string {
	var b bytes.Buffer
	b.WriteString("```toml\n")
	for i, rule := range builtinRules() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[[%s]]\n", keyRule)
		reading.WriteList(&b, keyGlob, rule.Glob)
		writeSettings(&b, rule)
	}
	b.WriteString("```")
	return b.String()
}

// literal writes a value as a policy does.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return reading.Quote(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = literal(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// sectionOf is the text from the heading of a key to the next heading.
func sectionOf(text, key string) string {
	_, section, _ := strings.Cut(text, "\n### `"+key+"`\n")
	if i := strings.Index(section, "\n#"); i >= 0 {
		section = section[:i]
	}
	return section
}
