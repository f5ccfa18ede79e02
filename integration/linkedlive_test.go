package integration

import "testing"

// Of a file with a live name and others, what a process writes straight through, and the times
// that it gives the file, are its own work under the other names: not a change outside the
// mount, for which it would be refused once the live name is gone (ln f f.lock; …; rm f.lock).
func TestWorkThroughALiveNameIsOnesOwn(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, work := range []string{
			`echo b > f`, `echo b > f.lock`, `echo b >> f`, `truncate -s 0 f.lock; echo b > f`,
			`exec 3>> f.lock; echo b >&3; echo c >&3; exec 3>&-`,
			`python3 -c 'import os; os.truncate("f", 0)'`, `touch -d 2001-01-01 f`, `touch -d 2001-01-01 f.lock`,
		} {
			for _, after := range []string{`rm f.lock; echo new > f`, `rm f.lock; echo new > t; mv t f`, `echo new > t; mv t f; rm f.lock`, `cat f > /dev/null; rm f.lock; echo new > f`} {
				got := m.Bash(t, `echo a > f; ln f f.lock; `+work+`; `+after+`; cat f; rm -f f t f.lock`)
				mustSee(t, work+"; "+after, got.Stdout+got.Stderr, "new\n")
			}
		}
		noAlarm(t, m)
	})
}

// What another process has written through the live name is its work, and is not lost.
func TestWorkThroughALiveNameIsNotLost(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, name := range []string{"f", "f.lock"} {
			got := m.Bash(t, `
echo a > f; mkfifo ../read ../go
bash -c 'cat f > /dev/null; echo > ../read; read < ../go; echo mine > f' 2> /dev/null & worker=$!
read < ../read; ln f f.lock
sh -c 'echo theirs > `+name+`; true'; rm f.lock
echo > ../go
wait $worker && echo replaced
cat f; rm -f f ../read ../go`)
			mustSee(t, name, got.Stdout, "theirs\n")
		}
	})
}
