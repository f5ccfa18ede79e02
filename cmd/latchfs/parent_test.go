package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A directory that is made again for a restore lets nobody in whom it kept out before.
func TestDirectoriesMadeAgain(t *testing.T) {
	removed := func(p string, minute int, mode string, uid int) string {
		return fmt.Sprintf(`{"timestamp":"2026-03-01T09:%02d:00Z","event":"delete_dir","path":%q,"mode":%q,"file_uid":%d,"file_gid":%d}`+"\n",
			minute, p, mode, uid, os.Getgid())
	}
	me, other := os.Geteuid(), os.Geteuid()+1
	const inD = `, "path": "d/e/f", "time": "2026-03-01T09:04:00Z", "file": {"size": 2, "mode": "0644", "uid": 0, "gid": 0}}`
	for name, tt := range map[string]struct {
		events string
		want   string // the modes of d and e
		warned bool
	}{
		"nothing is known": {"", "-rwx------ -rwx------", true},
		"as they were":     {removed("d/e", 5, "0710", me) + removed("d", 5, "0750", me), "-rwxr-x--- -rwx--x---", false},
		"before the file":  {removed("d/e", 1, "0777", me) + removed("d", 1, "0777", me), "-rwx------ -rwx------", true},
		"made again since": {removed("d/e", 5, "0700", me) + removed("d", 5, "0700", me) + removed("d", 6, "0777", me), "-rwx------ -rwx------", false},
		"another's":        {removed("d/e", 5, "0755", other) + removed("d", 5, "0755", other), "-rwx------ -rwx------", true},
	} {
		if name == "another's" && me == 0 {
			continue // root gives it back
		}
		for _, args := range [][]string{{"restore", "d/e/f", "1"}, {"rejected", "restore", "aa"}} {
			d := fakeFiles(t)
			d.remember(recorded{path: "d/e/f", version: 1, event: "commit", by: "sh", minute: 2, content: "1\n", extra: `,"mode":"0644"`},
				recorded{path: "d/e/f", version: 2, event: "delete", by: "rm", minute: 4})
			d.write(".locks/events.jsonl", tt.events)
			d.reject(firstID, "1\n", `{"id": "`+firstID+`"`+inD)
			got := d.run(args...)
			if got.code != 0 || d.read("d/e/f") != "1\n" {
				t.Errorf("%s: %s: %v", name, args, got)
				continue
			}
			var modes []string
			for _, p := range []string{"d", "d/e"} {
				st, err := os.Stat(d.file(p))
				if err != nil {
					t.Fatal(err)
				}
				modes = append(modes, st.Mode().Perm().String())
			}
			if text := strings.Join(modes, " "); text != tt.want || strings.Contains(got.stderr, "for its owner alone") != tt.warned {
				t.Errorf("%s: %s: %s, want %s\n%v", name, args, text, tt.want, got)
			}
		}
	}
}
