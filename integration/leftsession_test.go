package integration

import (
	"strings"
	"testing"
	"time"
)

// A script starts a program that inherits the descriptor of a file, and closes its own: the
// program may have the file open for as long as it lives. To the script and to what it starts
// the file is what it is in a plain directory; a stranger waits.
func TestFileLeftToAChild(t *testing.T) {
	const script = `
echo "$$" > existing
for f in new existing; do
	exec 3> $f; echo first >&3; sleep 1000 & child=$!; exec 3>&-
	cat $f
	[ -e $f ] && echo there
	echo second > $f && cat $f
	chmod 640 $f && stat -c %a $f
	mv $f moved && cat moved
	echo third > t && mv t moved && cat moved
	rm moved && ls moved 2>&1 | grep -c No
	kill $child
	wait $child 2> /dev/null
done
exec 3> kept; echo kept >&3; sleep 1000 & child=$!; exec 3>&-
echo ready
read line
kill $child
wait $child 2> /dev/null
cat kept
echo over
`
	const once = "first\nthere\nsecond\n640\nsecond\nthird\n1\n"
	forEachMount(t, func(t *testing.T, m *Mount) {
		began := time.Now()
		p := m.LaunchBash(t, script)
		p.AwaitLine("ready")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the script has waited: it took %v", took)
		}
		if !*plain {
			if out := m.LaunchUnrelated(t, "cat", m.Path("kept")).Wait(); out.Code == 0 {
				t.Errorf("a stranger reads %q, which nobody has finished", out.Stdout)
			}
		}
		p.Send("go on")
		p.AwaitLine("over")
		if got, want := p.Stdout(), once+once+"ready\nkept\nover\n"; got != want {
			t.Errorf("the script prints\n%s\nwant\n%s", got, want)
		}
		if said := p.Stderr(); strings.TrimSpace(said) != "" {
			t.Errorf("the script says %q", said)
		}
	})
}
