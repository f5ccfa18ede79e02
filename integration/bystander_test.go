package integration

import (
	"testing"
	"time"
)

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

// A program asks a worker of its own to stop, which has inherited the file and has written
// elsewhere, or to the file: it goes on, and knows what it has in the file.
func TestDismissedWorker(t *testing.T) {
	alongside(t)
	const pool = `
import multiprocessing, sys
multiprocessing.set_start_method("fork")
out = open(sys.argv[1], "w") if len(sys.argv) > 1 else sys.stdout
def square(n): return n * n
with multiprocessing.Pool(2) as p:
    for n in p.map(square, [2, 3]): print(n, file=out, flush=True)
for w in multiprocessing.active_children(): w.join()
print("end", file=out)
`
	for name, test := range map[string]struct{ script, want string }{
		"of a pool that writes its output": {`python3 -c "$2" > "$1"`, "4\n9\nend\n"},
		"of a pool that has opened it":     {`python3 -c "$2" "$1"`, "4\n9\nend\n"},
		"of a pool of a script":            {`{ echo start; python3 -c "$2"; } > "$1"`, "start\n4\n9\nend\n"},
		"of a shell, which writes the file": {`cd "$TMPDIR"; mkfifo begun never; cd - >&2
			{ { echo start; echo > "$TMPDIR/begun"; read -t 100 <> "$TMPDIR/never"; } & read < "$TMPDIR/begun"; kill $!; wait; echo end; } > "$1"`, "start\nend\n"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("old", "old\n")
				for _, file := range []string{"old", "new"} {
					mustEndWith(t, m.Bash(t, "export TMPDIR=$(mktemp -d)\n"+test.script, file, pool), 0)
					if got := m.ReadFile(file); got != test.want {
						t.Errorf("%s holds %q", file, got)
					}
				}
			})
		})
	}
}

// A worker that has opened the file itself, or a command that has written to what its shell has
// opened, has not finished it when it is asked to stop.
func TestDismissedWriter(t *testing.T) {
	alongside(t)
	for name, script := range map[string]string{
		"a worker": `fifos=$(mktemp -d); mkfifo "$fifos/begun" "$fifos/never"
			{ echo half; echo > "$fifos/begun"; read -t 100 <> "$fifos/never"; } > old & read < "$fifos/begun"; kill $!; wait`,
		"a command": `{ python3 -uc 'import os, signal; print("half"); os.kill(os.getpid(), signal.SIGTERM)'; true; } > old`,
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("old", "old\n")
				m.Bash(t, script)
				if got := m.ReadFile("old"); got != "old\n" {
					t.Errorf("it holds %q", got)
				}
			})
		})
	}
}

// A step of a program is asked to stop that has written to the file, and the program, which has opened
// it, goes on and writes: what it closes is the file.
func TestKilledStep(t *testing.T) {
	alongside(t)
	const program = `
import subprocess, sys
with open(sys.argv[1], "w") as f:
    f.write("start\n"); f.flush()
    subprocess.run(["sh", "-c", "echo half; kill $$"], stdout=f)
    f.write("end\n")
`
	for name, script := range map[string]string{
		"of a block":     `{ echo start; sh -c 'echo half; kill $$'; echo end; } > "$1"`,
		"of a script":    `bash -c 'echo start; sh -c "echo half; kill \$\$"; echo end' > "$1"`,
		"beside another": `{ echo start; sh -c 'echo half; kill $$'; sh -c 'echo end'; sh -c 'kill $$'; true; } > "$1"`,
		"of a program":   `python3 -c "$2" "$1"`,
		"of a make":      `printf 'a:\n\t@echo start\n\t-@echo half; kill $$$$\n\t@echo end\n' | make -sf - > "$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("old", "old\n")
				for _, file := range []string{"old", "new"} {
					mustEndWith(t, m.Bash(t, script, file, program), 0)
					if got := m.ReadFile(file); got != "start\nhalf\nend\n" {
						t.Errorf("%s holds %q", file, got)
					}
				}
			})
		})
	}
}

// Where the program that has the file does not write on, has left it to others, or changes it in
// its middle, the death of its step counts; so it does where the step was killed outright, or has crashed.
func TestKilledStepAtTheEnd(t *testing.T) {
	alongside(t)
	for name, script := range map[string]string{
		"killed outright": `{ echo start; sh -c 'echo half; kill -9 $$'; echo end; } > old`,
		"crashed":         `ulimit -c 0; { echo start; sh -c 'echo half; kill -SEGV $$'; echo end; } > old`,
		"last":            `{ echo start; sh -c 'echo half; kill $$'; true; } > old`,
		"of set -e":       `bash -ec 'echo start; sh -c "echo half; kill \$\$"; echo end' > old`,
		"in the file":     `exec 3<> old; sh -c 'echo half >&3; kill $$'; echo end >&3`,
		"all of it":       `sh -c 'echo start; sh -c "echo half; kill \$\$"; echo end; kill $$' > old`,
		"of none": `fifos=$(mktemp -d); mkfifo "$fifos/go" "$fifos/dead"
			({ exec 3> "$fifos/dead"; read < "$fifos/go"; exec sh -c 'echo half; kill $$'; } &
			{ cat "$fifos/dead"; echo end; } &) > old; echo > "$fifos/go"`,
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("old", "old\n")
				m.Bash(t, script)
				m.AwaitFree(t, promised(100*time.Millisecond), "old")
				if got := m.ReadFile("old"); got != "old\n" {
					t.Errorf("it holds %q", got)
				}
			})
		})
	}
}
