package integration

import (
	"strings"
	"testing"
)

// A directory above what a transaction makes gets another name meanwhile, from somebody
// else. What was made is gone when the daemon dies before the end, and its makers may
// remove it themselves.
func TestTransactionInAMovedDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const work = `mkdir d/e d/e/in; ln -s q d/m; echo made; read`
		list := func() string { return m.Bash(t, `find d d2 2>/dev/null | sort | tr '\n' ' '`).Stdout }

		m.Bash(t, "mkdir d; echo 1 > d/f")
		p := m.Guard(t, "--txn", "--name", "t", "--", "bash", "-c", work+"; cd d2; rm m; rmdir e/in e; echo 2 > f")
		p.AwaitLine("made")
		m.Bash(t, "mv d d2")
		p.Send("")
		p.OK()
		if got := list(); got != "d2 d2/f " {
			t.Errorf("when the members have removed it there is %q", got)
		}
		m.holds(t, "d2/f", "2\n")

		m.Bash(t, "mv d2 d")
		p = m.Guard(t, "--txn", "--name", "t", "--", "bash", "-c", work)
		p.AwaitLine("made")
		m.Bash(t, "mv d d2")
		m.Crash(t)
		p.Kill()
		p.Wait()
		m.Start(t)
		if got := list(); got != "d2 d2/f " {
			t.Errorf("after the death of the daemon there is %q", got)
		}
	})
}

// A directory that a transaction has removed and makes again is what the program asked for,
// or the program is told that it cannot be.
func TestTransactionMakesADirectoryAgain(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range []struct{ is, make, want string }{
			{"mkdir d", "mkdir d", "made 755 g\n"},
			{"mkdir d", "mkdir d; chmod 755 d; rmdir d; mkdir d", "made 755 g\n"},
			{"mkdir -m 777 d", "mkdir d", "refused 777 f\n"},
			{"mkdir d", "mkdir -m 700 d", "refused 755 f\n"},
			{"mkdir -m 2755 d; chmod g+s d", "mkdir d", "refused 2755 f\n"},
			{"mkdir d; setfacl -d -m u:65533:rwx d", "mkdir d", "refused 755 f\n"},
		} {
			got := m.Bash(t, `umask 022; `+c.is+`; echo x > d/f
"$1" guard --txn --name t -- bash -c "set -e; rm -r d; $2; echo y > d/g" 2> /dev/null && echo -n "made " || echo -n "refused "
echo $(stat -c %a d) $(ls d); rm -r d`, bench.binary, c.make)
			mustSee(t, c.is+", "+c.make, got.Stdout, c.want)
			if why := m.ReadFile(".locks/why"); strings.Contains(c.want, "refused") && !strings.Contains(why, "In a transaction no directory takes the place") {
				t.Errorf("why:\n%s", why)
			}
		}
	})
}
