package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Who has a file open the daemon finds out by looking at descriptors. A user whose
// processes have very many cannot have it do nothing else.

// dearSaver saves a file again and again, and has children with many descriptors. It
// waits for a line before each save.
const dearSaver = `
import json, os, resource, sys, time
os.chdir(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
for _ in range(600):
    os.open("/dev/null", os.O_RDONLY)
for _ in range(60):
    if os.fork() == 0:
        time.sleep(1000)
print("ready", flush=True)
for n, line in enumerate(sys.stdin):
    with open("f", "w") as f: f.write("%d\n" % n)
    print("saved", n, flush=True)
`

// daemonCPU is the processor time that the daemon has used.
func (m *Mount) daemonCPU(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.PID()))
	must(t, err)
	// proc_pid_stat(5): utime and stime are fields 14 and 15, in ticks of 10 ms.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// The first saves are looked into as those of everybody are. Those that follow cost
// far less, and become the file all the same.
func TestManyDescriptorsAreNotAllLookedAt(t *testing.T) {
	inStress(t)
	strangerMounts(t, func(t *testing.T, m *Mount) {
		p := m.launchAs(t, otherUID, bench.python, "-c", dearSaver, m.Path("bob"))
		defer p.Kill()
		p.AwaitLine("ready")
		saves := 0
		save := func(n int) time.Duration {
			before := m.daemonCPU(t)
			for range n {
				p.Send("save")
				p.AwaitLine(fmt.Sprintf("saved %d", saves))
				saves++
			}
			return m.daemonCPU(t) - before
		}
		first := save(2)
		began := time.Now()
		more := save(20)
		// In the meantime so many saves may have been looked into all the same: each has
		// 60 children with 600 descriptors looked at twice.
		looked := 2 + time.Since(began).Seconds()*65536/72000
		most := time.Duration(1.5*looked*float64(first/2)) + 20*20*time.Millisecond
		t.Logf("2 saves cost %v, 20 more %v of %v", first, more, most)
		if more > most {
			t.Errorf("20 saves cost %v, want at most %v", more, most)
		}
		want := fmt.Sprintf("%d\n", saves-1)
		eventually(t, "the last save is the file", func() bool { return m.ReadFile("bob/f") == want })
	})
}
