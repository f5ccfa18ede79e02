package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// txnPlain are scripts that do in a transaction what they do in a plain directory.
var txnPlain = []struct{ name, script string }{
	{"flock(1) around a writer", `flock -w 5 a -c 'echo locked > a'; cat a`},
	{"flock(1) on a descriptor of a written file", `exec 9> lk; flock -w 5 9 && echo in; exec 9>&-; cat lk`},
	{"flock(1) on a file written before", `echo 1 > a; flock -w 5 a sh -c 'echo 2 >> a'; cat a`},
	{"a hard link removed after another was written", `cat h2; printf n > h2; rm h; cat h2`},
	{"a hard link replaced after another was written", `cat h2; printf n > h2; printf o > t; mv t h; cat h h2`},
	{"a live name that was moved away", `echo 1 >> app.log; mv app.log old; echo 2 >> app.log; cat app.log old; rm app.log; ls; echo 3 > app.log; cat app.log`},
}

// A transaction is no reason for a program to fail or to wait: what its processes
// do has the effects and the output that it has in a plain directory.
func TestTransactionIsLikeAPlainDirectory(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	m := mount(t)
	for i, c := range txnPlain {
		t.Run(c.name, func(t *testing.T) {
			plain := t.TempDir()
			sub := fmt.Sprint("case", i)
			inside := filepath.Join(m.Data, sub)
			if err := os.Mkdir(inside, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{plain, inside} {
				if err := txnSeed(dir); err != nil {
					t.Fatal(err)
				}
			}
			script := "umask 022; exec 2>&1; " + c.script
			want := mustRun(t, plain, script)
			o := m.Guard(t, "--txn", sub+"/f", "--", "bash", "-c", "cd "+sub+"; "+script).Wait()
			mustEndWith(t, o, 0)
			mustSee(t, "the script", o.Stdout, want)
			mustSee(t, "a stranger at the end", mustRun(t, inside, txnView), mustRun(t, plain, txnView))
		})
	}
	if s := m.Status(); s.Held() > 0 {
		t.Errorf("still held: %+v", s.HeldLocks)
	}
}

// mustRun runs a script in a directory and returns what it prints.
func mustRun(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(out)
}

// A process that has joined by its environment alone is a member like any other.
func TestTransactionJoinedByEnvironment(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withSeed(txnSeed))
	p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `printf A > a; echo "$LATCHFS_SESSION"; echo staged; read`)
	p.AwaitLine("staged")
	id, _, _ := strings.Cut(p.Stdout(), "\n")
	o := m.Bash(t, `export LATCHFS_SESSION=`+id+`; exec bash -c 'cat a; printf B > b; printf n > n; cat b n; mv n n2; cat n2'`)
	mustEndWith(t, o, 0)
	mustSee(t, "the process", o.Stdout, "ABnn")
	mustSee(t, "a stranger", m.view(t), txnOld)
	p.Send("")
	p.OK()
	mustSee(t, "a stranger at the end", m.Bash(t, "cat a b n2").Stdout, "ABn")
}

// What is made in a transaction is not found by others whom the kernel answers by
// itself.
func TestTransactionHidesWhatIsMade(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `mkdir made; ln -s f link; mkfifo fifo; mkdir gone; rmdir gone; rmdir d2; mkdir d2; echo staged; read`)
		p.AwaitLine("staged")
		o := m.Bash(t, "stat -c %n made link fifo gone d2 2>/dev/null")
		mustSee(t, "a stranger", o.Stdout, "d2\n")
		p.Send("")
		p.OK()
		o = m.Bash(t, "stat -c %n made link fifo gone d2 2>/dev/null")
		mustSee(t, "a stranger at the end", o.Stdout, "made\nlink\nfifo\nd2\n")
	}, withSeed(func(data string) error { return os.Mkdir(filepath.Join(data, "d2"), 0o755) }))
}

// A directory that a transaction removes stays alive for those who are in it.
func TestTransactionRemovesNoOthersDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, end := range []int{1, 0} {
			stranger := m.LaunchBash(t, `cd d; echo in it; while read -r line; do eval "$line"; done`)
			stranger.AwaitLine("in it")
			p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `(cd d; rm -r ../d; { echo lost > lost; } 2>/dev/null || echo refused; mkdir lost 2>/dev/null || echo refused); ls -d d 2>/dev/null; echo staged; read; exit `+strconv.Itoa(end))
			p.AwaitLine("staged")
			mustSee(t, "a member", p.Stdout(), "refused\nrefused\nstaged\n")
			stranger.Send("ls; cat e/x ../d/e/x; echo; echo looked")
			stranger.AwaitLine("looked")
			mustSee(t, "a stranger in it", stranger.Stdout(), "in it\ne\nxx\nlooked\n")
			mustSee(t, "a stranger", m.view(t), txnOld)
			p.Send("")
			mustEndWith(t, p.Wait(), end)
			if end == 1 {
				stranger.Send("ls; cat e/x; touch y && rm y; echo; echo again")
				stranger.AwaitLine("again")
				mustSee(t, "a stranger in it afterwards", stranger.Stdout(), "in it\ne\nxx\nlooked\ne\nx\nagain\n")
				mustSee(t, "a stranger afterwards", m.view(t), txnOld)
			}
			stranger.Send("exit")
			stranger.Wait()
		}
		mustEndWith(t, m.Bash(t, "test -e d"), 1)
	}, withSeed(txnSeed))
}

// What was written under one name of a file is not lost to its other names because
// the transaction takes the first away: that is refused. (The file is known by the
// name under which it was seen last.)
func TestTransactionKeepsWhatOtherLinksShare(t *testing.T) {
	needsLatchfs(t)
	for _, away := range []string{"rm h", "printf o > t; mv t h"} {
		m := mount(t, withSeed(txnSeed))
		o := m.Guard(t, "--txn", "f", "--", "bash", "-c", "cat h; printf n > h; "+away).Wait()
		mustEndWith(t, o, 1, "Device or resource busy")
		mustSee(t, "a stranger", m.view(t), txnOld)
	}
}

// Processes that go on to write while their transaction is decided leave no lock
// behind, of whose session nobody would ever hear again.
func TestTransactionDecidedUnderWriters(t *testing.T) {
	inStress(t)
	alongside(t)
	needsLatchfs(t)
	m := mount(t)
	const writer = `
import os
for i in range(400):
    try:
        open("bg%d" % (i % 7), "w").write("q")
        os.mkdir("made%d" % i)
        os.rmdir("made%d" % i)
        os.unlink("bg%d" % (i % 7))
    except OSError:
        pass
`
	for i := range repeat(6, 60) {
		o := m.Guard(t, "--txn", "f", "--", "bash", "-c", `for i in {1..40}; do echo $i > s$i; done; python3 -c '`+writer+`' & sleep 0.2; exit `+strconv.Itoa(i%2)).Wait()
		mustEndWith(t, o, i%2)
		m.AwaitClear(t)
	}
}

// A transaction that writes nothing into a file leaves it its setuid and setgid bits, as on
// a plain directory; who has set a time or a mode by the name is not told otherwise.
func TestTransactionKeepsSetuid(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "setpriv")
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		for do, want := range map[string]string{
			"chmod 6711 f":              "6711",
			"touch -d @1 f":             "6711",
			"setfattr -n user.k -v 1 f": "6711",
			"chmod 2711 f":              "2711",
			"echo y >> f":               "711",
		} {
			got := m.Bash(t, `
echo x > f; chown 65533:65533 f; chmod 6711 f
setpriv --reuid 65533 --regid 65533 --clear-groups -- "$1" guard --txn --name t -- sh -c "$2" && stat -c %a f; rm f`, bench.binary, do)
			mustSee(t, do, got.Stdout+got.Stderr, want+"\n")
		}
	}, openToAll())
}

// What cannot be changed in a transaction through a descriptor that reads is explained.
func TestTransactionRefusesAttributesOfAReader(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "x")
		p := m.Guard(t, "--txn", "--name", "t", "--", "python3", "-c", `
import os
fd = os.open("f", os.O_RDONLY)
try: os.fchmod(fd, 0o600)
except OSError as e: print(e.errno)
`)
		mustSee(t, "fchmod", p.Wait().Stdout, "16\n")
		if why := m.ReadFile(".locks/why"); !strings.Contains(why, "through a descriptor that was opened to read it") {
			t.Errorf("why:\n%s", why)
		}
	})
}
