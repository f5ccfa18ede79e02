package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/reading"
	"latchfs/lockmgr/policy/lockfile"
)

// The transcripts under testdata say what is accepted, what is refused and how,
// and what holds for which path. Their commands are
//
//	parse         the policy in the input; prints what is wrong with it, or "ok"
//	preset        name=N subtree=S: a preset with the input for the next compose
//	compose       as parse, together with the presets since the last one
//	for           one path a line; prints what the last policy says of each
//	lock-name     one path a line; prints under which name each is locked
//	claim         one path a line; prints what the last policy says of each as a claim file
//	toml          the last policy, written out
//	with-defaults wait=D   the last policy, with another default wait
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		p := Default()
		var presets []Preset
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "parse":
				parsed, err := Parse("policy.toml", []byte(d.Input))
				if err != nil {
					return err.Error()
				}
				p = parsed
				return "ok"
			case "preset":
				preset := Preset{Data: []byte(d.Input)}
				d.ScanArgs(t, "name", &preset.Name)
				d.MaybeScanArgs(t, "subtree", &preset.Subtree)
				presets = append(presets, preset)
				return ""
			case "compose":
				parsed, err := Compose("policy.toml", []byte(d.Input), presets)
				presets = nil
				if err != nil {
					return err.Error()
				}
				p = parsed
				return "ok"
			case "for":
				var b strings.Builder
				for path := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&b, "%s\n", describe(p, path))
				}
				return b.String()
			case "lock-name":
				var b strings.Builder
				for path := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&b, "%s: %s\n", path, p.LockName(path))
				}
				return b.String()
			case "claim":
				var b strings.Builder
				for path := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&b, "%s: %s\n", path, describeClaim(p, path))
				}
				return b.String()
			case "toml":
				return string(p.TOML())
			case "with-defaults":
				var wait string
				d.ScanArgs(t, "wait", &wait)
				w, err := time.ParseDuration(wait)
				if err != nil {
					return err.Error()
				}
				p = p.WithDefaults(w)
				return "ok"
			}
			return "unknown command " + d.Cmd
		})
	})
}

// describe names what differs from the defaults of a policy without a file.
func describe(p *Policy, path string) string {
	s, plain := p.For(path), factory()
	text := []string{string(s.Mode)}
	if s.Wait != plain.Wait {
		text = append(text, "wait "+s.Wait.String())
	}
	if s.Durability != plain.Durability {
		text = append(text, string(s.Durability))
	}
	if s.Append != plain.Append {
		text = append(text, "append "+string(s.Append))
	}
	if s.OnKill != plain.OnKill {
		text = append(text, "on-kill "+string(s.OnKill))
	}
	if s.Grow != plain.Grow {
		text = append(text, "grow "+s.GrowText())
	}
	if s.TTL != plain.TTL {
		text = append(text, "ttl "+s.TTL.String())
	}
	if s.OnStale != plain.OnStale {
		text = append(text, "on-stale "+string(s.OnStale))
	}
	if s.Key != plain.Key {
		text = append(text, "key "+string(s.Key))
	}
	if !slices.Equal(s.LiveIf, plain.LiveIf) {
		text = append(text, fmt.Sprintf("live-if %q", s.LiveIf))
	}
	text = append(text, describeUpdates(&s, &plain)...)
	if s.History != plain.History {
		text = append(text, fmt.Sprint("history ", s.History))
	}
	if s.Validate != nil {
		text = append(text, "validate "+s.Validate.String())
		if s.Validate.Timeout != defaultTimeout {
			text = append(text, "in "+s.Validate.Timeout.String())
		}
	}
	return fmt.Sprintf("%s: %s (%s)", path, strings.Join(text, ", "), s.Rule)
}

// describeClaim says what a path is as a claim file.
func describeClaim(p *Policy, path string) string {
	if dir, c := p.ClaimRecord(path); c != nil {
		return "a record of " + dir
	}
	c := p.ClaimFile(path)
	if c == nil {
		return "no claim"
	}
	about := fmt.Sprintf(" (%s, ttl %v, foreign %v, on-stale %q, malformed %q; %s)",
		c.Format, c.TTL, c.ForeignTTL, c.OnStale, c.Malformed, c.Origin())
	target, err := c.Target(path)
	if err != nil {
		return "stands for nothing: " + err.Error() + about
	}
	return "stands for " + target.String() + about
}

func TestErrors(t *testing.T) {
	_, err := Parse("p.toml", []byte("builtin = 3\n[[rule]]\nglob = '['\n"))
	var all Errors
	if !errors.As(err, &all) || len(all) != 2 {
		t.Fatalf("%v", err)
	}
	var one *Error
	if !errors.As(err, &one) || one.File != "p.toml" || one.Line != 1 {
		t.Errorf("the first is %+v", one)
	}
	if !errors.Is(err, all[1]) {
		t.Error("the second is not found")
	}
}

func TestLoad(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(path, []byte("mode = 'live'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	if want := path + ":1: unknown key"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
}

// The example that people start from says what holds anyway.
func TestExample(t *testing.T) {
	p, err := Load("../../examples/policies/default.toml")
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, Default(), p)
}

// Every setting stands in the example, for what is left out holds anyway and is
// found by nobody. An alias and a claim have no default: the example has one of each
// in a comment, which must be good when it is none.
func TestExampleIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../examples/policies/default.toml")
	if err != nil {
		t.Fatal(err)
	}
	commented := regexp.MustCompile(`(?m)^# (\[\[(?:alias|claim)\]\]|(?:name|roots|glob|format|covers) +=.*)$`)
	text = commented.ReplaceAll(text, []byte("$1"))
	p, err := Parse("default.toml", text)
	if err != nil || len(p.Aliases()) != 1 || len(p.ClaimFiles()) != 1 {
		t.Fatalf("with its alias and its claim: %v", err)
	}
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	mustHave(t, "the example", doc, documentKeys)
	defaults, _ := doc[keyDefaults].(map[string]any)
	mustHave(t, "its defaults", defaults, settingKeys)
}

func mustHave(t *testing.T, what string, table map[string]any, keys []string) {
	t.Helper()
	for _, key := range keys {
		if table[key] == nil {
			t.Errorf("%s leave out %s", what, key)
		}
	}
}

var ignoreOrigin = cmp.FilterPath(func(p cmp.Path) bool {
	return p.Last().String() == ".origin"
}, cmp.Ignore())

func TestTOMLReadsBack(t *testing.T) {
	wait, none, ttl := Duration(90*time.Second), Duration(0), Duration(1500*time.Millisecond)
	size, ten := Bytes(3<<20+1), 10
	for _, p := range []*Policy{
		Default(),
		Default().WithDefaults(0),
		compile(source{defaults: factory()}),
		compile(source{defaults: factory(), rules: []Rule{
			{Glob: []string{`a"b`, `c\\d`, "é\t\x01\x7f", `'''`}, Wait: &wait, TTL: &none, origin: "a\nb\xff"},
			{Glob: []string{"x"}, TTL: &wait, OnStale: StealStale, Key: "group:g-1", Validate: []string{}, Command: []string{}},
			{Glob: []string{"y"}, Validate: []string{nonEmpty}, MaxSize: &size, Command: []string{"/c", `a"b`}, CommandTimeout: &wait, History: &ten},
			{Glob: []string{"z"}, LostUpdate: Adaptive, ClaimTTL: &ttl, Fade: &wait, Observers: []string{"jq", `/a"b`}, Strangers: OneStranger},
			{Glob: []string{"zz"}, LostUpdate: Merge, Observers: []string{}},
			{Glob: []string{"db/**"}, LiveIf: []string{"A", "b*+C"}},
			{Glob: []string{"y2"}, LiveIf: []string{}},
			{Glob: []string{"k"}, OnKill: Rollback, Grow: &none},
			{Glob: []string{"l"}, OnKill: Auto, Grow: &wait},
		}}),
		compile(source{
			defaults: Settings{Mode: ReadOnly, Wait: time.Hour, Durability: Lazy, Append: Session, OnKill: Commit,
				TTL: time.Second, OnStale: StealStale, Key: DirectoryKey, Rule: ruleDefaults, History: 3,
				LostUpdate: Serialize, Insist: NeverObey, ClaimTTL: time.Second, Fade: time.Hour, Observers: []string{"**/x.py"}, Strangers: RefuseStrangers,
				Validate: &Validation{Formats: []Format{JSON, YAML}, NonEmpty: true, MaxSize: 1 << 40, Command: []string{"/x"}, Timeout: time.Second, CommandUser: "judge"}},
			history: Bounds{MaxBytes: 1025, MaxAge: time.Minute}, rejected: Bounds{MaxAge: 2 * reading.Day},
			alias: []Alias{
				{Name: "app", Roots: []string{".", "a*", `\*"`, "é"}, origin: "a\nb"},
				{Name: "b", Roots: []string{"b"}},
			},
			actorEnv: []string{"A", "_b1"},
			claims: []lockfile.Convention{
				factoryClaimOf(lockfile.Flock, lockfile.CoversFile, "*.lock"),
				factoryClaimOf(lockfile.Beads, lockfile.CoversDirectory, `a"b`, "/x/**/.claim"),
				{Glob: []string{"x/c"}, Format: lockfile.Clawdbot, Covers: lockfile.CoversDirectory, TTL: time.Second,
					ForeignTTL: time.Hour, OnStale: lockfile.RemoveStale, Malformed: lockfile.MalformedLocked},
				{Glob: []string{`l\[x/**/*.lck`}, Format: lockfile.OwnerDir, Covers: lockfile.CoversFile, Root: "l[x", Tree: "a/b", TTL: time.Second,
					OnStale: lockfile.KeepStale, Malformed: lockfile.MalformedFree},
			},
		}),
	} {
		again, err := Parse("again", p.TOML())
		if err != nil {
			t.Errorf("%v in\n%s", err, p.TOML())
			continue
		}
		mustEqual(t, p, again)
	}
}

func factoryClaimOf(format lockfile.Format, covers lockfile.Covers, globs ...string) lockfile.Convention {
	c := lockfile.New(format)
	c.Glob, c.Covers = globs, covers
	return c
}

func mustEqual(t *testing.T, a, b *Policy) {
	t.Helper()
	if diff := cmp.Diff(a.Defaults(), b.Defaults()); diff != "" {
		t.Errorf("defaults differ:\n%s", diff)
	}
	if a.HistoryBounds() != b.HistoryBounds() || a.RejectedBounds() != b.RejectedBounds() {
		t.Errorf("bounds %v, %v, then %v, %v", a.HistoryBounds(), a.RejectedBounds(), b.HistoryBounds(), b.RejectedBounds())
	}
	if diff := cmp.Diff(a.Rules(), b.Rules(), ignoreOrigin); diff != "" {
		t.Errorf("rules differ:\n%s", diff)
	}
	if diff := cmp.Diff(a.ClaimFiles(), b.ClaimFiles(), ignoreOrigin); diff != "" {
		t.Errorf("claims differ:\n%s", diff)
	}
	if diff := cmp.Diff(a.Aliases(), b.Aliases(), ignoreOrigin, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("aliases differ:\n%s", diff)
	}
	if !slices.Equal(a.ActorEnv(), b.ActorEnv()) {
		t.Errorf("actors are told by %q, then by %q", a.ActorEnv(), b.ActorEnv())
	}
	if a.MapsNames() != b.MapsNames() {
		t.Errorf("maps names: %t, then %t", a.MapsNames(), b.MapsNames())
	}
}

func TestSidecar(t *testing.T) {
	for path, want := range map[string]string{
		"a/data-journal": "a/data", "Cookies-wal": "Cookies", "x.db-shm": "x.db",
		"data": "", "-wal": "", "a/-journal": "", "a-wal/b": "", "x-journal2": "", "": "",
	} {
		if got, ok := Sidecar(path); ok != (want != "") || ok && got != want {
			t.Errorf("%q belongs to %q, %t; want %q", path, got, ok, want)
		}
	}
}

// The cache changes nothing but the time, and does not grow.
func TestCache(t *testing.T) {
	p := Default()
	const paths = 5 * cacheShards * generationSize
	for i := range paths {
		path := fmt.Sprintf("dir%d/file%d", i%7, i)
		want := Atomic
		if i%3 == 0 {
			path, want = path+".db", Live
		}
		for range 2 {
			if got := p.For(path).Mode; got != want {
				t.Fatalf("%s is %s, want %s", path, got, want)
			}
		}
	}
	n := 0
	for i := range p.settings.shards {
		n += len(p.settings.shards[i].young) + len(p.settings.shards[i].old)
	}
	if n > 2*cacheShards*generationSize || n == 0 {
		t.Errorf("%d paths are remembered", n)
	}
}

// What is asked for again and again stays in the cache while much else goes by.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := newCache[*Settings]()
	kept := &Settings{}
	c.put("kept", kept)
	for i := range 10 * cacheShards * generationSize {
		c.put(fmt.Sprint(i), &Settings{})
		if i%generationSize == 0 {
			if got, ok := c.get("kept"); !ok || got != kept {
				t.Fatalf("forgotten after %d others", i)
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	p := Default()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				path := fmt.Sprintf("d/%d.db", (i*g)%3000)
				if p.For(path).Mode != Live {
					t.Errorf("%s is not live", path)
				}
			}
		})
	}
	wg.Wait()
}

func TestImmutable(t *testing.T) {
	p := Default()
	rules := p.Rules()
	rules[0] = Rule{}
	if len(p.Rules()[0].Glob) == 0 {
		t.Error("Rules hands out the policy's own slice")
	}
	p.ActorEnv()[0] = ""
	if p.ActorEnv()[0] == "" {
		t.Error("ActorEnv hands out the policy's own slice")
	}
	q := p.WithDefaults(time.Second)
	if p.Defaults().Wait != 30*time.Second || q.Defaults().Wait != time.Second || q.For("x.db").Wait != time.Second {
		t.Error("WithDefaults changes the wrong policy")
	}
	if !slices.Equal(p.TOML(), Default().TOML()) {
		t.Error("the built-in policy has changed")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(string(Default().TOML()))
	f.Add("builtin = false\n[defaults]\nwait = \"5s\"\n[[rule]]\nglob = [\"a/**\", '*.[ch]']\nmode = \"live\"\n")
	f.Add("rule = [{glob = 'x', wait = '0s'}, {glob = ['{a,b}', 1]}]\ndefaults.mode = 1\n")
	f.Add("actor-env = ['A', 'b_1']\n[[alias]]\nname = 'a'\nroots = ['.', 'w/*']\n[defaults]\nttl = '1m'\non-stale = 'steal'\nkey = 'group:x'\n")
	f.Add("[defaults]\nlost-update = 'serialize'\ninsist = 'never'\nclaim-ttl = '1s'\nfade = '1m'\nobservers = ['a', '**/b']\nstrangers = 'refuse'\n")
	f.Add("[defaults]\nlive-if = 'A+b*'\n[[rule]]\nglob = 'x'\nlive-if = []\n[[rule]]\nglob = 'y'\nlive-if = ['', 'a/b', '+', '*', 1]\n")
	f.Add("[[claim]]\nglob = ['locks/*.lock', 3]\nformat = 'lock/v1'\ncovers = 'name'\nttl = '1m'\non-stale = 'remove'\n")
	f.Add("claim = [{glob = 'l/**/*.lock', format = 'owner-dir', covers = 'file', root = 'l', tree = 't'}, {glob = 'x.[a]', format = 'flock', covers = 'file', ttl = '1s'}]\n")
	f.Add("alias = [{name = 'a', roots = 'x'}, {name = 'a', roots = ['**', 1]}]\nactor-env = 1\n")
	f.Add("[[rule]]\n[rule.a]\nb = 1\n[[rule.c]]\nd = [[1], {e = 2}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("p", []byte(text))
		if err != nil {
			lines := 1 + strings.Count(text, "\n")
			var all Errors
			if !errors.As(err, &all) {
				t.Fatalf("%T: %v", err, err)
			}
			for _, e := range all {
				if e.Line < 1 || e.Line > lines || e.Reason == "" {
					t.Errorf("line %d of %d: %q", e.Line, lines, e.Reason)
				}
			}
			return
		}
		again, err := Parse("again", p.TOML())
		if err != nil {
			t.Fatalf("%v in\n%s", err, p.TOML())
		}
		mustEqual(t, p, again)
	})
}

func BenchmarkFor(b *testing.B) {
	for _, path := range []string{"notes/todo.json", "a/very/deep/tree/of/directories/state.db", "src/.git/objects/ab/cdef"} {
		b.Run("remembered/"+glob.Base(path), func(b *testing.B) {
			p := Default()
			b.ReportAllocs()
			for b.Loop() {
				p.For(path)
			}
		})
		b.Run("decided/"+glob.Base(path), func(b *testing.B) {
			p := Default()
			b.ReportAllocs()
			for b.Loop() {
				p.decide(path)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		p := Default()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				p.For([...]string{"a", "b.db", "c/d", "e/f.log"}[i%4])
			}
		})
	})
}
