package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the policy makes read-only is changed by nobody: not under another name, which a link
// or the rename of its directory would give it, nor by a file in its place. .locks/why says by
// which rule.
func TestReadOnlyFilesStay(t *testing.T) {
	inTest(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		for name, script := range map[string]string{
			"written":         "echo new > frozen/f",
			"appended to":     "echo new >> frozen/f",
			"cut":             "truncate -s 0 frozen/f",
			"made":            "echo new > frozen/g",
			"removed":         "rm -f frozen/f",
			"renamed":         "mv frozen/f d/f",
			"replaced":        "echo new > d/t; mv -f d/t frozen/f",
			"linked":          "ln frozen/f d/f",
			"directory moved": "mv frozen d/frozen",
			"exchanged":       `python3 -c 'import ctypes, os; e = ctypes.CDLL(None, use_errno=True); r = e.renameat2(-100, b"d", -100, b"frozen", 2); print(os.strerror(ctypes.get_errno())) if r else None; raise SystemExit(r and 1)'`,
			"mode":            "chmod 600 frozen/f",
			"directory made":  "mkdir frozen/d",
		} {
			o := m.Bash(t, "export LC_ALL=C; "+script+` && exit 3; cat .locks/why`)
			if o.Code != 0 || !strings.Contains(o.Stdout, "EROFS") || !strings.Contains(o.Stdout, "readonly") {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if got := m.Bash(t, "cat frozen/f; ls -A frozen d").Stdout; got != "old\nd:\nt\n\nfrozen:\nf\n" {
			t.Errorf("there is %q", got)
		}
	}, withPolicy("[[rule]]\nglob = \"frozen/**\"\nmode = \"readonly\"\n"), withSeed(func(data string) error {
		if err := os.Mkdir(filepath.Join(data, "frozen"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(data, "frozen/f"), []byte("old\n"), 0o644)
	}))
}
