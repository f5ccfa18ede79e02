package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Callers in another pid namespace cannot be told apart. The policy says what that
// means: `strangers`.

// save overwrites a file through one descriptor, which it closes once: of a stranger
// the first close is the commit.
const save = `save() { python3 -c 'import sys; f = open(sys.argv[1], "w"); f.write(sys.argv[2])' "$@"; }; `

// strangers is a mount whose callers are all strangers, with a file f, and a way to
// change that around the mount. On a slow machine two of them may try the same more than
// a second apart: that is never taken for one who insists.
func strangers(t *testing.T, what string) (m *Mount, around func(string)) {
	t.Helper()
	needsRoot(t)
	needsLatchfs(t)
	m = mount(t, foreignPIDs(), withPolicy(neverInsist+"strangers = \""+what+"\"\n"))
	around = func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.Data, "f"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	around("one")
	return m, around
}

func TestStrangersIgnored(t *testing.T) {
	m, around := strangers(t, "ignore")
	a := m.Family(t)
	a.OK(`cat f`)
	around("changed")
	a.OK(save + `save f two; cat f; save t three`)
	around("again")
	a.OK(`mv t f; rm f`)
	noAlarm(t, m)
}

// All of them are one person.
func TestStrangersTogether(t *testing.T) {
	m, around := strangers(t, "together")
	a, b := m.Family(t), m.Family(t)
	a.OK(`cat f`)
	a.OK(save + `save f two; save f three`)
	b.OK(save + `save f four`)
	a.OK(`save t five; mv t f; sed -i s/five/six/ f`)
	noAlarm(t, m)
	around("changed")
	a.Refused(`save f seven`)
	b.Refused(`save t eight; mv t f`)
	b.OK(`cat f`)
	a.OK(`save f nine`)

	// The way that vim goes after a refusal is closed to them, too.
	around("changed again")
	a.Refused(`mv f f~`)
	a.OK(`cat f`)
	a.Refused(`rm f`)
	if got := a.OK(`cat f`); got != "changed again" {
		t.Errorf("f holds %q", got)
	}
}

// Nobody can tell what they know, so they replace nothing.
func TestStrangersRefused(t *testing.T) {
	m, _ := strangers(t, "refuse")
	a := m.Family(t)
	a.Refused(save + `cat f; save f two`)
	a.Refused(`truncate -s 1 f`)
	a.Refused(`save t two; mv t f`)
	a.Refused(`mv f g`)
	a.Refused(`rm f`)
	a.OK(`save g new; mkdir d; python3 -c 'open("f", "a").write("more")'`)
	if got := a.OK(`cat f`); got != "onemore" {
		t.Errorf("f holds %q", got)
	}
	if why := m.ReadFile(".locks/why"); !strings.Contains(why, "another pid namespace") || !strings.Contains(why, "strangers") {
		t.Errorf("why says %q", why)
	}
}
