package reach

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFollow(t *testing.T) {
	r, dir := tree(t, map[string]os.FileMode{"d/e/f": 0o600, "g": 0o600})
	for name, to := range map[string]string{
		"link": "d/e/f", "d/up": "../g", "dir": "d/e", "chain": "d/../link", "abs": "/mnt/x/d/e/f", "absdir": "/mnt/x//d/",
		"root": "/mnt/x", "loop": "loop", "gone": "nowhere", "out": "../g", "away": "/mnt/xy/g", "beyond": "d/../../g",
	} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, c := range []struct{ dir, given, to string }{
		{"", "g", "g"},
		{"d", "e/f", "d/e/f"},
		{"d", "./e//f", "d/e/f"},
		{"d/e", "../../g", "g"},
		{"", "link", "d/e/f"},
		{"", "d/up", "g"},
		{"d", "up", "g"},
		{"", "dir/f", "d/e/f"},
		{"", "dir/../e/f", "d/e/f"}, // the .. of where the link leads
		{"", "chain", "d/e/f"},
		{"d", "/mnt/x/g", "g"},
		{"d", "//mnt/x//dir/f", "d/e/f"},
		{"d", "/mnt/x", ""},
		{"d", "../abs", "d/e/f"},
		{"", "absdir/e/f", "d/e/f"},
		{"", "root/root/g", "g"},
	} {
		if to, ok := r.Follow("/mnt/x", c.dir, c.given); !ok || to != c.to {
			t.Errorf("%q from %q leads to %q (%v), not %q", c.given, c.dir, to, ok, c.to)
		}
	}
	for _, given := range []string{"loop", "gone", "out", "away", "beyond", "g/x", "nowhere", "..", "/g", "/mnt/xy/g", "/mnt"} {
		if to, ok := r.Follow("/mnt/x", "", given); ok {
			t.Errorf("%q leads to %q", given, to)
		}
	}
	if to, ok := r.Follow("/", "", "/dir/f"); !ok || to != "d/e/f" {
		t.Errorf("below a root at / it leads to %q (%v)", to, ok)
	}
}
