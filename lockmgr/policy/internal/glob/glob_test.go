package glob

import (
	"strings"
	"testing"
)

// The quick ways to match say what doublestar says.
func TestMatchersAgree(t *testing.T) {
	paths := []string{"", "a", "x.db", "a/x.db", ".db", "a/.db", "db", "a/b/c.db", "nohup.out", "a/nohup.out",
		".git", ".git/config", "a/.git/config", "a/.git", "a/.gitx/b", "x.git/b", "a/.git/b/c", "data/nohup.out", "\xff.db", "a/\xff", "a/b/x.db"}
	for _, glob := range []string{"*.db", "nohup.out", "*", "**/.git/**", "/nohup.out", "a/nohup.out", "**", "**/*.db", "*db", "**/a/**", "a/**", "*/x.db"} {
		m := New(glob)
		plain := Pattern{kind: byPattern, text: strings.TrimPrefix(glob, "/"), onBase: m.onBase}
		for _, path := range paths {
			if got, want := m.Match(path, Base(path)), plain.Match(path, Base(path)); got != want {
				t.Errorf("%q matches %q: %t, by pattern %t", glob, path, got, want)
			}
		}
	}
	kinds := map[string]kind{"*.db": bySuffix, "nohup.out": byLiteral, "**/.git/**": byAncestor, "/a": byLiteral, "*.d?": byPattern, "a/*.db": byPattern, `a\b`: byPattern}
	for glob, want := range kinds {
		if got := New(glob).kind; got != want {
			t.Errorf("%q is matched in way %d, want %d", glob, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for glob, bad := range map[string]bool{
		"*.db": false, "/a": false, "a/**": false, "[a-z]": false, "{a,b}/c": false, `\*`: false, "...": false,
		"": true, "a\x00": true, "[a": true, "{a": true, "a/": true, "a//b": true, "./a": true, "a/..": true, "/": true,
	} {
		if reason := Check(glob); (reason != "") != bad {
			t.Errorf("%q: %q", glob, reason)
		}
	}
}

// A glob for a part matches below its directory what it matches below the root, and nothing
// elsewhere.
func TestBelow(t *testing.T) {
	const dir = "re[po/{x}"
	paths := []string{"a", "x.db", "a/x.db", "a/b/x.db", "a/.git/b", "b", ".git"}
	globs := []string{"*.db", "/*.db", "a/*.db", "**/.git/**", "a", "/a", "**", "/**"}
	for i, g := range Below(dir, globs) {
		alone, below := New(globs[i]), New(g)
		for _, path := range paths {
			want := alone.Match(path, Base(path))
			if got := below.Match(dir+"/"+path, Base(path)); got != want {
				t.Errorf("%q matches %q below a directory: %t, want %t", g, path, got, want)
			}
			if below.Match(path, Base(path)) || below.Match("d/"+dir+"/"+path, Base(path)) {
				t.Errorf("%q matches %q elsewhere", g, path)
			}
		}
	}
}

// What is escaped stands for itself only.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"a", "*.db", "[a]", "{a,b}", `a\b`, "a/b?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if glob := Escape(path); Check(glob) == "" && !strings.HasPrefix(path, "/") {
			m := New(glob)
			if !m.Match(path, Base(path)) || m.Match(path+"x", Base(path+"x")) {
				t.Errorf("%q as %q matches otherwise", path, glob)
			}
		}
	})
}
