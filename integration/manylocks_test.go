package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// many takes argv[1] locks through one descriptor (a request for each), says so
// and waits for the end of its input; with a third argument it waits for every
// tenth of them instead, says that it has asked, and counts what it is given.
const many = `
import json, os, sys
n, step = int(sys.argv[1]), 10 if sys.argv[2:] else 1
fd = os.open(".locks/control", os.O_RDWR)
wait = "1m" if step > 1 else "0s"
count = 0
replies = open(fd, "rb", closefd=False)
lines = b""
for i in range(0, n, step):
    lines += json.dumps({"op": "acquire", "paths": [f"d{i % 10}/{i}"], "wait": wait}).encode() + b"\n"
    count += 1
while lines:
    lines = lines[os.write(fd, lines[:1 << 16]):]
def collect():
    for _ in range(count):
        reply = json.loads(replies.readline())
        assert reply["ok"], reply
if step == 1:
    collect()
print("asked" if step > 1 else "held", flush=True)
if step > 1:
    collect()
    print("granted", count, flush=True)
sys.stdin.read()
`

// Many locks in one conversation, with many who wait in another: all are shown,
// and when the descriptor is closed all are free and all who waited have theirs.
func TestManyLocks(t *testing.T) {
	needsLatchfs(t)
	n := repeat(1000, 100_000)
	m := mount(t, withSeed(func(data string) error {
		for i := range 10 {
			if err := os.Mkdir(filepath.Join(data, fmt.Sprintf("d%d", i)), 0o755); err != nil {
				return err
			}
		}
		return nil
	}))
	var shown struct{ Held, Waiting int }
	await := func(held, waiting int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d held and %d waiting in status.json", held, waiting), func() bool {
			m.decode(m.Locks("status.json"), &shown)
			return shown.Held == held && shown.Waiting == waiting
		})
	}
	holder := m.LaunchPython(t, many, fmt.Sprint(n))
	holder.AwaitLine("held")
	waiter := m.LaunchPython(t, many, fmt.Sprint(n), "wait")
	waiter.AwaitLine("asked")
	await(n, n/10)
	if got := len(m.List(".locks/held/d0")); got != n/10 {
		t.Errorf("%d names in .locks/held/d0, want %d", got, n/10)
	}
	holder.Close()
	holder.OK()
	waiter.AwaitLine(fmt.Sprintf("granted %d", n/10))
	await(n/10, 0)
	waiter.Close()
	waiter.OK()
	await(0, 0)
}
