package integration

import (
	"strings"
	"testing"
)

// expectSaid runs the program and expects an exit code and a text in what it says.
func (m *Mount) expectSaid(t testing.TB, code int, want string, args ...string) {
	t.Helper()
	o := m.Run(t, bench.binary, args...)
	if text := o.Stdout + o.Stderr; o.Code != code || !strings.Contains(text, want) {
		t.Errorf("latchfs %s: ended with %d, want %d, and %q in\n%s", strings.Join(args, " "), o.Code, code, want, text)
	}
}

// Whoever forgets a secret is told where it still is.
func TestForgetSaysWhatItLeaves(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.Bash(t, `echo TOPSECRET > h; ln h hh; echo clean > h; mkdir sec; echo S1 > sec/k; echo S2 > sec/k; rm sec/k; echo 1 > o; echo 2 > o`)
	name, other := "h", "hh" // which of them has the version is not promised
	if strings.Contains(m.latchfs(t, 0, "history", "h"), "yes") {
		name, other = "hh", "h"
	}
	m.expectSaid(t, 1, `forget "`+other+`", too`, "forget", name)
	m.expectSaid(t, 0, "erased of "+other, "forget", other)
	m.expectSaid(t, 0, "nothing is kept", "forget", "h")
	m.expectSaid(t, 0, "nothing is kept", "forget", "hh")
	if out := m.Bash(t, `grep -r TOPSECRET .locks/history`).Stdout; out != "" {
		t.Errorf("it is still in %s", out)
	}

	m.expectSaid(t, 1, "content of files below it is kept", "forget", "sec")
	m.expectSaid(t, 0, "erased of sec/k: 2 versions", "forget", "sec/k")
	m.expectSaid(t, 0, "nothing is kept", "forget", "sec")
	m.Bash(t, `rmdir sec; echo 1 > sec; echo 2 > sec; rm sec; mkdir sec; echo 1 > sec/k; echo 2 > sec/k`)
	m.expectSaid(t, 0, "erased of sec: 2 versions", "forget", "sec")
	m.expectSaid(t, 1, "content of files below it is kept", "forget", "sec")

	m.expectSaid(t, 1, "it has no version 7", "forget", "--version", "7", "o")
	m.expectSaid(t, 1, "version 2 is what the file holds now", "forget", "--version", "2", "o")
	m.expectSaid(t, 0, "erased of o: 1 version", "forget", "--version", "1", "o")
	m.expectSaid(t, 0, "nothing is kept of version 1", "forget", "--version", "1", "o")
}

// A directory that kept others out keeps them out when a file in it is restored.
func TestRestoreMakesDirectoriesAsTheyWere(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.Bash(t, `mkdir -m 700 priv; mkdir -m 750 priv/sub; echo secret > priv/sub/key; chmod 644 priv/sub/key; rm -r priv; mkdir -m 777 priv; rmdir priv`)
	m.latchfs(t, 0, "restore", "priv/sub/key", "1")
	mustSee(t, "the modes", m.Bash(t, `stat -c %a priv priv/sub priv/sub/key`).Stdout, "700\n750\n644\n")
}

// A name that has become a link is restored and forgotten by itself, and never the file that
// it leads to.
func TestCommandsDoNotFollowLinks(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.Bash(t, `echo t1 > tgt; echo t2 > tgt; echo S1 > lnk; echo S2 > lnk; rm lnk; ln -s tgt lnk; ln -s tgt x; ln -s /etc/passwd out`)
	m.expectSaid(t, 1, "is a symbolic link now", "restore", "lnk", "1")
	m.expectSaid(t, 0, "deleted", "history", "lnk")
	m.expectSaid(t, 0, "x is a symbolic link: this is about tgt", "history", "x")
	m.expectSaid(t, 1, "no version of out is known", "history", "out")
	m.expectSaid(t, 0, "nothing is kept", "forget", "x")
	m.expectSaid(t, 0, "nothing is kept", "forget", "out")
	m.expectSaid(t, 0, "erased of lnk: 2 versions", "forget", "lnk")
	m.holds(t, "tgt", "t2\n")
	m.holds(t, ".locks/history/tgt/1", "t1\n")
}
