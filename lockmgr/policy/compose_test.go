package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"latchfs/lockmgr/policy/internal/naming"
	"latchfs/lockmgr/policy/lockfile"
)

// examplePresets reads the examples, each as a preset for the whole mount.
func examplePresets(t *testing.T) []Preset {
	t.Helper()
	files, err := filepath.Glob("../../examples/policies/*.toml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%q, %v", files, err)
	}
	presets := make([]Preset, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		presets[i] = Preset{Name: strings.TrimSuffix(filepath.Base(file), ".toml"), Data: text}
	}
	return presets
}

// samplePaths are paths about which the examples have something to say, and others.
var samplePaths = []string{
	"a", "todo.json", "d/todo-log.jsonl", "x.db", "d/x.db-wal", ".git/config", "d/.git/x", "notes/a.md", "next-id", "build/x/y",
	"todo.json.lock", "d/x.lock", "memory/tasks.json", "memory/events.jsonl", "memory/.lock", ".tasks.lock", "d/memory/memory.lock",
	"locks/web.lock", "d/locks/web.lock", "locks/src/a.c.lock", "locks/src/a.c.lock/owner", "worktrees/w/src/a.c", "src/a.c",
	".beads/.exclusive-lock", ".beads/beads.db", ".beads/issues.jsonl", "d/.beads/daemon.lock", "group",
}

// A preset for the whole mount is the same as a policy file.
func TestWholePresetIsAFile(t *testing.T) {
	for _, preset := range examplePresets(t) {
		p, err := Compose("", nil, []Preset{preset})
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse("p", preset.Data)
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, p, q)
	}
}

// A preset for a directory says there what it says for a mount, whatever else is
// mounted with it, as long as that leaves the defaults alone.
func TestPresetBelowADirectory(t *testing.T) {
	const dir = "re[po/{x}"
	presets := append(examplePresets(t), Preset{Name: "keys", Data: []byte("[defaults]\nkey = 'group:g'\n[[alias]]\nname = 'a'\nroots = 'd'\n")})
	for _, preset := range presets {
		alone, err := Parse("p", preset.Data)
		if err != nil {
			t.Fatal(err)
		}
		preset.Subtree = dir
		p, err := Compose("", nil, []Preset{
			{Name: "outer", Data: []byte("[[rule]]\nglob = '**'\nmode = 'readonly'\n")}, preset, {Name: "other", Subtree: "o", Data: preset.Data},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range samplePaths {
			below := dir + "/" + path
			a, b := alone.For(path), p.For(below)
			a.Rule, b.Rule = "", ""
			if _, grouped := a.Key.Group(); grouped {
				a.Key, b.Key = "", ""
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("%s: %s: %s", preset.Name, path, diff)
			}
			samePlace(t, alone, p, path, dir)
			for _, other := range samplePaths {
				same := alone.LockName(path) == alone.LockName(other)
				if got := p.LockName(below) == p.LockName(dir+"/"+other); got != same {
					t.Errorf("%s: %s and %s have one lock: %t, below a directory %t", preset.Name, path, other, same, got)
				}
				if p.LockName(below) == p.LockName("o/"+other) {
					t.Errorf("%s: %s and %s have one lock", preset.Name, below, "o/"+other)
				}
			}
		}
		mustReadBack(t, p)
	}
}

// samePlace compares what a path stands for with what it stands for below a directory.
func samePlace(t *testing.T, alone, p *Policy, path, dir string) {
	t.Helper()
	a, b := alone.ClaimFile(path), p.ClaimFile(dir+"/"+path)
	if a == nil || b == nil {
		if a != b {
			t.Errorf("%s: %+v, below a directory %+v", path, a, b)
		}
		return
	}
	target, err := a.Target(path)
	below, errBelow := b.Target(dir + "/" + path)
	if target.Covers != lockfile.CoversName {
		target.Path = strings.TrimSuffix(dir+"/"+target.Path, "/")
	}
	if (err == nil) != (errBelow == nil) || err == nil && target != below {
		t.Errorf("%s stands for %+v, %v, below a directory for %+v, %v", path, target, err, below, errBelow)
	}
}

func mustReadBack(t *testing.T, p *Policy) {
	t.Helper()
	again, err := Parse("again", p.TOML())
	if err != nil {
		t.Fatalf("%v in\n%s", err, p.TOML())
	}
	mustEqual(t, p, again)
}

// All presets together, each for a directory of its own.
func TestPresetsTogether(t *testing.T) {
	presets := examplePresets(t)
	for i := range presets {
		presets[i].Subtree = strings.Repeat("d/", i%3) + presets[i].Name
	}
	p, err := Compose("", nil, presets)
	if err != nil {
		t.Fatal(err)
	}
	mustReadBack(t, p)
}

// orElse knows every setting that a rule has.
func TestOrElseIsComplete(t *testing.T) {
	var full Rule
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		if name := v.Type().Field(i).Name; name == "Glob" || name == "origin" {
			continue
		}
		switch field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{}))
		default:
			field.SetString("x")
		}
	}
	for _, got := range []Rule{Rule{}.orElse(full), full.orElse(Rule{})} {
		if diff := cmp.Diff(full, got, ignoreOrigin); diff != "" {
			t.Error(diff)
		}
	}
}

// A name for a part is one that a policy may have, and not that of another part.
func TestNameBelow(t *testing.T) {
	long := strings.Repeat("a", naming.MaxLen)
	seen := map[string]bool{}
	for _, dir := range []string{"a", "a/b", "é"} {
		for _, name := range []string{"x", "x-1", long, long[1:] + "b"} {
			below := nameBelow(dir, name)
			if !naming.Valid(below) || seen[below] {
				t.Errorf("%s below %s is %q", name, dir, below)
			}
			seen[below] = true
		}
	}
}
