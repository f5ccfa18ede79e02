package integration

import "testing"

// A process that has merely inherited the descriptor, and has written nothing, is ended by a
// signal while others write: a sleep of a script, a helper that a program stops. What they
// write becomes the file.
func TestKilledBystander(t *testing.T) {
	alongside(t)
	for name, script := range map[string]string{
		"of a block":         `{ echo start; timeout -s KILL 0.1 sleep 50; echo end; } > "$1"`,
		"in the background":  `exec 3> "$1"; echo start >&3; sleep 50 & kill -9 $!; wait; echo end >&3; exec 3>&-`,
		"asked to stop":      `exec 3> "$1"; echo start >&3; sleep 50 & kill $!; wait; echo end >&3; exec 3>&-`,
		"crashes":            `{ echo start; bash -c 'kill -SEGV $$'; echo end; } > "$1"`,
		"outlives the block": `{ sleep 50 & p=$!; echo start; echo end; } > "$1"; kill -9 $p; wait; until [ "$(cat "$1")" = "start"$'\n'"end" ]; do :; done`,
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("old", "old\n")
				for _, file := range []string{"old", "new"} {
					mustEndWith(t, m.Bash(t, "ulimit -c 0; "+script, file), 0)
					if got := m.ReadFile(file); got != "start\nend\n" {
						t.Errorf("%s holds %q", file, got)
					}
				}
			})
		})
	}
}

// Where nothing at all was written, whoever was killed was about to write: the file stays as it
// was.
func TestKilledBeforeItHasWritten(t *testing.T) {
	alongside(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("old", "old\n")
		mustEndWith(t, m.Bash(t, `{ bash -c 'kill -9 $$'; } > old; { bash -c 'kill $$'; } > old; true`), 0)
		if got := m.ReadFile("old"); got != "old\n" {
			t.Errorf("it holds %q", got)
		}
	})
}
