package integration

import (
	"strconv"
	"testing"
)

// A family is a process and what it has started. Its own changes are never another's.

// pollingWriters write f again and again, $1 times, while three children of theirs
// do nothing but read it.
var pollingWriters = map[string]string{
	"python": `exec "$PYTHON" - "$1" <<'E'
import os, signal, sys
open("f", "w").write("0")
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        while True: open("f").read()
    children.append(pid)
refused = 0
for i in range(int(sys.argv[1])):
    try: open("f", "w").write(str(i))
    except OSError as e: print(e); refused += 1
for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
sys.exit(refused != 0)
E`,
	"python-rename": `exec "$PYTHON" - "$1" <<'E'
import os, signal, sys
open("f", "w").write("0")
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        while True: open("f").read()
    children.append(pid)
refused = 0
for i in range(int(sys.argv[1])):
    try:
        open("t", "w").write(open("f").read()[-100:] + str(i)); os.replace("t", "f")
    except OSError as e: print(e); refused += 1
for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
sys.exit(refused != 0)
E`,
	"shell": `echo 0 > f
for c in 1 2 3; do ( trap 'exit 0' TERM; while :; do cat f > /dev/null; done ) & readers+=($!); done
refused=0
for ((i = 0; i < $1; i++)); do echo $i > f || refused=1; done
kill "${readers[@]}"; wait
exit $refused`,
	"shell-children": `echo 0 > f
for c in 1 2 3; do ( trap 'exit 0' TERM; while :; do read -r x < f || true; done ) & readers+=($!); done
refused=0
for ((i = 0; i < $1; i += 4)); do
  echo $i > f || refused=1
  sh -c "sh -c 'echo $i > f'" || refused=1
  sh -c "echo $i > t; mv t f" || refused=1
  echo $i > t; mv t f || refused=1
done
kill "${readers[@]}"; wait
exit $refused`,
}

func TestFamilyThatPollsIsNeverRefused(t *testing.T) {
	inStress(t)
	alongside(t)
	writes := map[string]int{"python": repeat(300, 1000), "python-rename": repeat(150, 1000), "shell": repeat(300, 1000), "shell-children": repeat(100, 1000)}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for name, script := range pollingWriters {
			t.Run(name, func(t *testing.T) {
				dir := m.Path(name)
				p := m.LaunchUnrelated(t, "bash", "-c", `mkdir "$2" && cd "$2" || exit; `+script, "bash", strconv.Itoa(writes[name]), dir)
				if o := p.Wait(); o.Code != 0 || saysBusy(o.Stdout+o.Stderr) {
					t.Errorf("ended with %d\n%s%s", o.Code, o.Stdout, o.Stderr)
				}
			})
		}
		noAlarm(t, m)
	})
}
