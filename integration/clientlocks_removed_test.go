package integration

import "testing"

// A lock on a descriptor of a file that its own program has removed has nothing to do with the
// file that has the name now: whoever writes that does not wait.
func TestLockOnARemovedFileWhileItIsWritten(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, open := range []string{"7> f", "7<> f"} {
			got := m.Bash(t, `
echo A > f
exec `+open+`
rm f
echo 2 > f
flock -n 7 || echo "not locked"
timeout 5 sh -c 'echo 3 > f' || echo "the child has failed"
timeout 5 setsid sh -c 'echo 4 >> f' || echo "the other has failed"
flock -n f true || echo "the file is locked"
exec 7>&-
cat f; rm f`)
			if want := "3\n4\n"; got.Stdout != want {
				t.Errorf("exec %s: %q, want %q", open, got.Stdout, want)
			}
		}
		// A lock from before goes, too, when its program says so.
		got := m.Bash(t, `
exec 7> g
flock 7
rm g
flock -u 7
echo 2 > g
flock -n g true || echo "locked"
flock -n 7 || echo "not locked again"
timeout 5 sh -c 'echo 3 > g'
cat g`)
		if got.Stdout != "3\n" {
			t.Errorf("after a lock that was given back: %q", got.Stdout)
		}
	})
}
