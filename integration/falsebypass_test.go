package integration

import (
	"strings"
	"testing"
	"time"
)

// What programs change through the mount is not told as changed outside it: neither the times of a
// file by another of its names, nor what they store through a mapping of an append descriptor.
func TestNoFalseBypass(t *testing.T) {
	needsLatchfs(t)
	scripts := map[string]string{
		"the times by another name": `
echo a > a; echo b > a; ln a b; touch -d 2001-01-01 b; rm b; cat a; stat a`,
		"the times by the other name": `
echo a > a; echo b > a; ln a b; touch -d 2001-01-01 a; rm a; cat b; stat b`,
		"the times by the first of three names": `
echo a > a; echo b > a; ln a b; ln b c; touch -d 2001-01-01 a; rm a; rm c; cat b; stat b; echo c > b`,
		"the times of the name that is left": `
echo one > a; read x < a; ln a b; rm a; touch -d yesterday b; echo two > b; mv b c`,
		"a mapping": `"$PYTHON" -c '
import mmap, os, time
for how in "closed", "open", "replaced":
    open(how, "w").write("old content")
    f = open(how, "a+b")
    m = mmap.mmap(f.fileno(), 0)
    if how != "open": f.close()
    for i in range(3):
        time.sleep(.02); m[0:3] = b"ne" + b"%d" % i; m.flush()
        os.stat(how); assert open(how).read() == "ne%d content" % i
    if how == "replaced": open(how, "w").write("saved")
    m.close(); f.close()
    time.sleep(.02); os.stat(how)
    print(open(how).read())
    open(how, "w").write("saved")
'`,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range scripts {
			if out := m.Bash(t, "set -e; export PYTHON="+bench.python+"; rm -rf w; mkdir w; cd w; sleep .1;"+script); out.Code != 0 {
				t.Errorf("%s: %+v", name, out)
			}
		}
		time.Sleep(time.Second) // a look at a file that changed is somebody else's work
		if events := m.Bash(t, "cat .locks/events.jsonl"); strings.Contains(events.Stdout, `"bypass"`) {
			t.Error(events.Stdout)
		}
	})
}
