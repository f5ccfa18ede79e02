package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A file with two names is one file: a program that has read its newest content under one of
// them knows it under the other, also where nobody has told latchfs of that version.
func TestReadUnderAnotherName(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, m *Mount, writer *Family){
		"changed outside the mount": func(t *testing.T, m *Mount, _ *Family) {
			writeOutside(t, m, "two\n", "d/f", "e/f")
		},
		"changed while nothing is mounted": func(t *testing.T, m *Mount, _ *Family) {
			m.Stop(t)
			writeOutside(t, m, "two\n", "d/f", "e/f")
			m.Start(t)
		},
		"killed after a save": func(t *testing.T, m *Mount, writer *Family) {
			eventually(t, "what was read is in the log", func() bool { return bytes.Contains(m.knowledgeLog(), []byte("read-last")) })
			writer.OK(`for p in d e; do read -r x < "$d/$p/f"; echo two > "$d/$p/f"; done`)
			m.Crash(t)
			m.Start(t)
			m.Stop(t)
			m.Start(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inShortOnRoot(t, func(t *testing.T, m *Mount) {
				writer, late, program := m.Family(t), m.Family(t), m.Family(t)
				for _, f := range []*Family{writer, late, program} {
					f.OK(`d=$PWD; cd /`)
				}
				writer.OK(`for p in d e; do mkdir "$d/$p"; echo one > "$d/$p/f"; ln "$d/$p/f" "$d/$p/g"; done`)
				writeOutside(t, m, "nobody knows it\n", "read-last")
				late.OK(`cat "$d/d/f" "$d/e/f" "$d/d/g" "$d/e/g" "$d/read-last"`)
				change(t, m, writer)
				program.OK(`x=$(cat "$d/d/f"); echo "$x more" > "$d/d/g"`)
				program.OK(`x=$(cat "$d/e/g"); echo "$x more" > "$d/e/f"`)
				for _, name := range []string{"d/f", "d/g", "e/f", "e/g"} {
					late.Refused(`echo mine > "$d/` + name + `"`)
					if got := program.OK(`cat "$d/` + name + `"`); got != "two more\n" {
						t.Errorf("%s holds %q", name, got)
					}
				}
			}, withPolicy(neverInsist))
		})
	}
}

// writeOutside writes files of the data directory in place.
func writeOutside(t *testing.T, m *Mount, content string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(m.Data, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
