package policy

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func mustParse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Parse("policy.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMapsNames(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                     false,
		"[defaults]\nkey = 'file'\n":           false,
		"[[rule]]\nglob = 'x'\nkey = 'file'\n": false,
		"[defaults]\nkey = 'directory'\n":      true,
		"[defaults]\nkey = 'group:g'\n":        true,
		"builtin = false\n[defaults]\nkey = 'directory'\n":                   true,
		"[[rule]]\nglob = 'x'\nkey = 'group:g'":                              true,
		"[[alias]]\nname = 'a'\nroots = 'x'\n":                               true,
		"[defaults]\nkey = 'group:g'\n[[rule]]\nglob = '**'\nkey = 'file'\n": true,
	} {
		p := mustParse(t, text)
		if got := p.MapsNames(); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
		if !want && p.LockName("a/b") != "a/b" {
			t.Errorf("%q: %q", text, p.LockName("a/b"))
		}
	}
}

// A command's own wait changes nothing else.
func TestWithDefaultsKeeps(t *testing.T) {
	p := mustParse(t, `
actor-env = ["A"]
[defaults]
ttl = "1m"
on-stale = "steal"
key = "directory"
[[alias]]
name = "a"
roots = "x"
`)
	q := p.WithDefaults(5 * time.Second)
	if q.Defaults().Wait != 5*time.Second {
		t.Errorf("the wait is %v", q.Defaults().Wait)
	}
	mustEqual(t, p, q.WithDefaults(p.Defaults().Wait))
	if got := q.LockName("x/y/z"); got != "//alias/a/y" {
		t.Errorf("x/y/z is locked as %q", got)
	}
}

// The data root is nobody's neighbour, but may be in a group.
func TestLockNameOfTheRoot(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"[defaults]\nkey = 'directory'\n":       "",
		"[defaults]\nkey = 'group:g'\n":         "//group/g",
		"[[alias]]\nname = 'a'\nroots = '.'\n":  "",
		"[[alias]]\nname = 'a'\nroots = 'x'\n":  "",
		"[[alias]]\nname = 'a'\nroots = '**/x'": "",
	} {
		if got := mustParse(t, text).LockName(""); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestGroup(t *testing.T) {
	for key, want := range map[Key]string{"group:a": "a", FileKey: "", DirectoryKey: "", "groups:a": ""} {
		if got, ok := key.Group(); ok != (want != "") || ok && got != want {
			t.Errorf("%q is group %q, %t; want %q", key, got, ok, want)
		}
	}
}

// What a path was called once it is called again, by whomever it is asked.
func TestLockNameConcurrent(t *testing.T) {
	p := mustParse(t, "[[alias]]\nname = 'a'\nroots = ['main', 'wt/*']\n")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				rel := fmt.Sprintf("d/%d", (i*g)%3000)
				if a, b := p.LockName("main/"+rel), p.LockName("wt/x/"+rel); a != "//alias/a/"+rel || b != a {
					t.Errorf("%s has the names %q and %q", rel, a, b)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkLockName(b *testing.B) {
	const path = "worktrees/feature/state/deep/tasks.json"
	const aliased = "[[alias]]\nname = 'app'\nroots = ['main', 'worktrees/*']\n"
	run := func(name, text string, lockName func(*Policy, string) string) {
		b.Run(name, func(b *testing.B) {
			p := mustParse(b, text)
			b.ReportAllocs()
			for b.Loop() {
				lockName(p, path)
			}
		})
	}
	run("unmapped", "", (*Policy).LockName)
	run("remembered", aliased, (*Policy).LockName)
	run("decided", aliased, (*Policy).lockName)
}
