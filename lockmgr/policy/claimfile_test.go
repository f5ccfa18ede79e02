package policy

import "testing"

const someClaims = `
[[claim]]
glob = "locks/**/*.lock"
format = "owner-dir"
covers = "file"
root = "locks"
[[claim]]
glob = "*.lock"
format = "lock/v1"
covers = "name"
`

// Every operation asks whether a path is a claim file, so that asking costs nothing
// where there is no claim, and leaves no garbage where there is one.
func TestClaimFileAllocatesNothing(t *testing.T) {
	p, err := Parse("p", []byte(someClaims))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Policy{p, Default()} {
		for _, path := range []string{"locks/a/b.lock", "locks/a/b.lock/owner", "x.lock", "notes/todo.json", ""} {
			if n := testing.AllocsPerRun(100, func() { p.ClaimFile(path); p.ClaimRecord(path) }); n > 0 {
				t.Errorf("%q: %v allocations", path, n)
			}
		}
	}
}

// A policy without claims has none.
func TestNoClaimFiles(t *testing.T) {
	p := Default()
	if p.HasClaimFiles() || len(p.ClaimFiles()) != 0 || p.ClaimFile("x.lock") != nil {
		t.Errorf("the built-in policy has claims: %v", p.ClaimFiles())
	}
	p, err := Parse("p", []byte(someClaims))
	if err != nil {
		t.Fatal(err)
	}
	if !p.HasClaimFiles() || len(p.ClaimFiles()) != 2 || p.WithDefaults(1).ClaimFile("x.lock") == nil {
		t.Errorf("%v", p.ClaimFiles())
	}
}

// What was decided for a claim file is remembered with what the claim says, and does
// not change what the rules say of other files.
func TestClaimSettingsAreRemembered(t *testing.T) {
	p, err := Parse("p", []byte(someClaims))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s := p.For("x.lock"); s.Mode != Atomic || s.LostUpdate != IgnoreLost {
			t.Errorf("x.lock: %+v", s)
		}
		if s := p.For("X.lock"); s.Mode != Live {
			t.Errorf("X.lock, which stands for nothing: %+v", s)
		}
		if s := p.For("x.pid"); s.Mode != Live || s.LostUpdate != RefuseLost {
			t.Errorf("x.pid: %+v", s)
		}
	}
}

func BenchmarkClaimFile(b *testing.B) {
	p, err := Parse("p", []byte(someClaims))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.ClaimFile("a/very/deep/tree/of/directories/notes.txt")
	}
}
