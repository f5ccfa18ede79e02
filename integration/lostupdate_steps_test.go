package integration

import (
	"os"
	"testing"
)

// A script that renames what it has made of a file is not refused because of what it has itself
// done with the file since.
func TestOwnStepsAreNotRefused(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, script := range []string{
			`sed s/0/1/ f > t; echo B > f; mv t f`,
			`sed s/0/1/ f > t; sh -c 'echo B > f; mv t f; exit $?'`,
			`python3 -c 'open("f").read(); open("t", "w").write("A")'; python3 -c 'import os; open("f", "w").write("B"); os.rename("t", "f")'`,
		} {
			m.AsOnPlain(t, script, "bash", "-ec", `echo 0 > f; `+script+`; cat f; rm -f f t`)
		}
		noAlarm(t, m)
	})
}

// Whoever else has saved the file between the two steps is not overwritten: not another
// program, not another user, and no worker that the script, or the process that renames, runs
// beside them.
func TestStepsOfOthersAreRefused(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		a.OK(`echo 0 > f; chmod 666 f; chmod 777 .; sed s/0/1/ f > t`)
		b.OK(`echo theirs > f`)
		a.Refused(`mv t f`)
		a.OK(`sed s/0/1/ f > t; echo mine > f`)
		b.OK(`sed -i s/mine/theirs/ f`)
		a.OK(`echo again >> f`)
		a.Refused(`mv t f`)
		if os.Geteuid() == 0 && m.UID == 0 {
			a.OK(`sed s/0/1/ f > t`)
			b.OK(`cat f; setpriv --reuid 61002 --clear-groups sh -c 'echo theirs > f'`)
			a.Refused(`mv t f`)
		}
		for _, script := range []string{
			`sed s/0/1/ f > t; sh -c 'echo 7 > f; true' & wait $!; mv t f`,
			`sed s/0/1/ f > t; sh -c 'sh -c "echo 7 > f; true"; exit' & wait $!; sh -c 'mv t f; exit $?'`,
			`printf 'all: a b\na:\n\tsed s/0/1/ f > t\n\tuntil grep -q 2 f; do sleep .01; done\n\tmv t f\nb:\n\tsed s/0/2/ f > v\n\tuntil [ -s t ]; do sleep .01; done\n\tcp v f\n' > Makefile; make -s -j2`,
		} {
			got := m.Bash(t, `rm -f f t v; echo 0 > f; `+script+`; echo $?`)
			if !saysBusy(got.Stderr) {
				t.Errorf("%s: not refused\n%s%s", script, got.Stdout, got.Stderr)
			}
		}
	})
}
