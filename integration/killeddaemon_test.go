package integration

import (
	"fmt"
	"strings"
	"testing"
)

// A daemon that is killed while programs make, save and remove files in one directory leaves
// nobody waiting: it may be telling the kernel to forget a name, which waits for the
// directory's lock, which a program has that waits for the daemon. An ordinary user's daemon
// needs fusectl mounted for that, which a machine need not have.
func TestKilledDaemonLeavesNobodyWaiting(t *testing.T) {
	inTest(t)
	rounds := 1
	if stress() {
		rounds = 60
	}
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		for range rounds {
			const script = `
import os, sys
def put(p):
    f = os.open(p, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644); os.write(f, b'x' * 100); os.close(f)
w, i = sys.argv[1], 0
try:
    while True:
        i += 1; n = 'n%s.%d' % (w, i)
        put('s' + w); put(n); put('t' + w); os.rename('t' + w, 'r' + w); os.unlink(n)
        if i == 20: print('busy', flush=True)
except OSError: pass
`
			var writers []*Proc
			for i := range 8 {
				writers = append(writers, m.LaunchPython(t, script, fmt.Sprint(i)))
			}
			for _, p := range writers {
				p.AwaitLine("busy")
			}
			m.Crash(t)
			for _, p := range writers {
				p.OK()
			}
			m.Start(t)
		}
	})
}

// A command says the same of a daemon that was killed before it asked, and of one that is
// killed while it waits: the kernel has two errors for that.
func TestCommandsSayThatTheDaemonHasEnded(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "v")
	m.shell(t).do(`$L acquire f`, 0)
	waiting := m.Launch(t, bench.binary, "acquire", "--wait", "1m", "f")
	m.AwaitWaiters(t, "f", 1)
	m.Crash(t)
	for name, o := range map[string]Outcome{
		"asked before": waiting.Wait(), "asked after": m.Launch(t, bench.binary, "acquire", "--wait", "1m", "f").Wait(),
		"list": m.Run(t, bench.binary, "list"),
	} {
		if o.Code != 1 || !strings.Contains(o.Stderr, "The latchfs of that mount has ended: 'latchfs mount' replaces it") {
			t.Errorf("%s: ended with %d\n%s", name, o.Code, o.Stderr)
		}
	}
	m.Start(t)
}
