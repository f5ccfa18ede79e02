package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// txnSeed is what a transaction's test begins with.
func txnSeed(data string) error {
	script := `umask 022; printf old > f; printf gone > g; printf a > a; printf hard > h; ln h h2; mkdir -p d/e; printf x > d/e/x; printf b > b`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = data
	return cmd.Run()
}

// txnWork does everything that can be done to names and contents.
const txnWork = `
set -e
printf new > f
printf A > a.tmp; mv a.tmp a
mv b b2
rm g
rm -r d
mkdir -p m/k
printf n > m/k/n
ln -s f link
printf l1 >> lines; echo >> lines; echo l2 >> lines
printf HARD > h
rm f; printf newer > f
touch empty
printf gone > t; mv t t2; rm t2
mkdir away; rmdir away
chmod 600 f
`

// txnView prints the tree as the process sees it.
const txnView = `find . -path ./.locks -prune -o -path ./.latchfs -prune -o ! -name . -printf '%P %y %l ' \( -type f -exec sh -c 'tr "\n" , < "$1"; echo' - {} \; -o -printf '\n' \) | LC_ALL=C sort`

var (
	txnOld = "a f  a\nb f  b\nd d  \nd/e d  \nd/e/x f  x\nf f  old\ng f  gone\nh f  hard\nh2 f  hard\n"
	txnNew = "a f  A\nb2 f  b\nempty f  \nf f  newer\nh f  HARD\nh2 f  HARD\nlines f  l1,l2,\nlink l f \nm d  \nm/k d  \nm/k/n f  n\n"
)

// view is the tree as a stranger sees it.
func (m *Mount) view(t *testing.T) string {
	t.Helper()
	o := m.Bash(t, txnView)
	if o.Code != 0 {
		t.Fatalf("%+v", o)
	}
	return o.Stdout
}

// mustSee compares a view of the tree.
func mustSee(t *testing.T, who, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s sees\n%swant\n%s", who, got, want)
	}
}

// What a transaction does is seen by its own processes alone until its command
// ends well, and by everybody then.
func TestTransaction(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.Guard(t, "--txn", "f", "--", "bash", "-c", txnWork+txnView+`; echo staged; read`)
		p.AwaitLine("staged")
		inside, _, _ := strings.Cut(p.Stdout(), "staged\n")
		// Inside, a hard-linked file that is written has its other name's old content.
		mustSee(t, "the transaction", inside, strings.Replace(txnNew, "h2 f  HARD", "h2 f  hard", 1))
		mustSee(t, "a stranger", m.view(t), txnOld)
		p.Send("")
		p.OK()
		mustSee(t, "a stranger at the end", m.view(t), txnNew)
		if st, err := os.Stat(filepath.Join(m.Data, "f")); err != nil {
			t.Error(err)
		} else if st.Mode().Perm() != 0o600 {
			t.Errorf("f has mode %o", st.Mode().Perm())
		}
		if s := m.Status(); s.Held() > 0 {
			t.Errorf("still held: %+v", s.HeldLocks)
		}
		// Everything is as it should be for the next writer.
		o := m.Bash(t, `set -e; printf 2 > f; printf 2 > m/k/n; rm link; mv b2 b; mkdir d; cat f m/k/n b; test ! -e g`)
		mustEndWith(t, o, 0)
		if o.Stdout != "22b" {
			t.Errorf("the next writer finds %q", o.Stdout)
		}
	}, withSeed(txnSeed))
}

// A command that fails, or is killed, has changed nothing; what it wrote is kept.
func TestTransactionRollsBack(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, end := range []struct {
			how  string
			code int
		}{{"exit 3", 3}, {"kill -KILL $$", 128 + 9}, {"kill -TERM $$", 128 + 15}} {
			mustEndWith(t, m.Guard(t, "--txn", "f", "--", "bash", "-c", txnWork+end.how).Wait(), end.code)
			mustSee(t, "after "+end.how+" a stranger", m.view(t), txnOld)
		}
		kept := m.Bash(t, `grep -l '"path": "f"' .locks/rejected/*/meta.json | while read x; do cat ${x%meta.json}content; done`)
		if !strings.Contains(kept.Stdout, "newer") {
			t.Errorf("kept of f: %q", kept.Stdout)
		}
		if s := m.Status(); s.Held() > 0 {
			t.Errorf("still held: %+v", s.HeldLocks)
		}
	}, withSeed(txnSeed))
}

// Without guard nobody can decide any more: what its command goes on to do is
// refused, and nothing of it happens.
func TestTransactionOfAKilledGuard(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `printf new > f; echo staged; read; { printf worse > f; } 2>/dev/null || echo refused; rm g || echo refused; echo end`)
		p.AwaitLine("staged")
		p.Cmd.Process.Kill()
		m.AwaitStatus(t, "the rollback", func(Status) bool {
			return strings.Contains(m.Locks("events.jsonl"), "txn_rolled_back")
		})
		p.Send("")
		p.AwaitLine("end")
		if n := strings.Count(p.Stdout(), "refused"); n != 2 {
			t.Errorf("%d of 2 changes after the end were refused: %s", n, p.Stdout())
		}
		p.Close()
		m.AwaitClear(t)
		mustSee(t, "a stranger", m.view(t), txnOld)
	}, withSeed(txnSeed))
}

// Strangers wait for what a transaction has changed, until it ends.
func TestTransactionKeepsOthersOut(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `printf A > a; rm g; mv b b2; echo staged; read`)
		p.AwaitLine("staged")
		// f is locked from the beginning, the others by what was done to them.
		for _, name := range []string{"f", "a", "g", "b", "b2"} {
			if _, err := m.Client(t).TryOpen(name, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK); err != unix.EAGAIN {
				t.Errorf("%s: %v", name, err)
			}
		}
		stranger := m.Client(t)
		waits := stranger.GoOpen("a", unix.O_RDWR)
		waits.MustBlock(t)
		p.Send("")
		p.OK()
		fd := int(waits.OK().N)
		if got := stranger.ReadAt(fd, 10, 0); got != "A" {
			t.Errorf("the waiter finds %q", got)
		}
		stranger.MustClose(fd)
	}, withSeed(txnSeed))
}

// So do the members of other transactions, for whom what this one has removed is there, and
// what it has made is not.
func TestTransactionKeepsOtherTransactionsOut(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, tc := range []struct{ change, at, after string }{
			{"rm g", "g", "! test -e g"},
			{"mv b c", "b", "test -e c && ! test -e b"},
			{"mv a b2", "b2", "test -e b2 && ! test -e a"},
			{"ln -s a link", "link", `test "$(readlink link)" = a`},
			{"mkdir made", "made", "test -d made"},
			{"rm -r d", "d/e/x", "! test -e d"},
		} {
			p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `rm g; mv b b2; ln -s f link; mkdir made; rm -r d; echo staged; read; exit 1`)
			p.AwaitLine("staged")
			other := m.Guard(t, "--txn", "h", "--", "bash", "-c", tc.change)
			m.AwaitWaiters(t, tc.at, 1)
			p.Send("")
			mustEndWith(t, p.Wait(), 1)
			other.OK()
			if o := m.Bash(t, tc.after); o.Code != 0 {
				t.Errorf("%s: afterwards there is\n%s", tc.change, m.view(t))
			}
			m.Bash(t, "mv c b; mv b2 a; rm -f link; rmdir made; mkdir -p d/e; printf x > d/e/x; printf gone > g")
		}
		// What it waited for is gone, or there.
		p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `rm g; ln -s f link; echo staged; read`)
		p.AwaitLine("staged")
		removes := m.Guard(t, "--txn", "h", "--", "bash", "-c", `rm g`)
		m.AwaitWaiters(t, "g", 1)
		links := m.Guard(t, "--txn", "a", "--", "bash", "-c", `ln -s a link`)
		m.AwaitWaiters(t, "link", 1)
		p.Send("")
		p.OK()
		mustEndWith(t, removes.Wait(), 1, "No such file")
		mustEndWith(t, links.Wait(), 1, "File exists")
	}, withSeed(txnSeed))
}

// What was changed outside the mount meanwhile is not overwritten: the transaction
// is refused as a whole.
func TestTransactionConflict(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withSeed(txnSeed))
	p := m.Guard(t, "--txn", "f", "--", "bash", "-c", `printf new > f; printf A > a; echo staged; read`)
	p.AwaitLine("staged")
	if err := os.WriteFile(filepath.Join(m.Data, "f"), []byte("bypass"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Send("")
	mustEndWith(t, p.Wait(), 1, "rolled back", "f: the file was changed outside the mount")
	mustSee(t, "a stranger", m.view(t), strings.Replace(txnOld, "f f  old", "f f  bypass", 1))
	mustEndWith(t, m.Guard(t, "--txn", "f", "--", bench.binary, "guard", "--txn", "a", "--", "true").Wait(), 2, "part of a transaction already")
}

// A crash of latchfs in the middle of a transaction leaves nothing of it, one
// after its end all of it.
func TestTransactionCrash(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.Guard(t, "--txn", "f", "--", "bash", "-c", txnWork+`echo staged; read; true`)
		p.AwaitLine("staged")
		m.Crash(t)
		p.Send("")
		mustEndWith(t, p.Wait(), 1, "either all of the transaction is in the files, or nothing of it")
		m.Start(t)
		mustSee(t, "after a crash a stranger", m.view(t), txnOld)
		p = m.Guard(t, "--txn", "f", "--", "bash", "-c", txnWork+`echo staged; read; exit 3`)
		p.AwaitLine("staged")
		m.Crash(t)
		p.Send("")
		mustEndWith(t, p.Wait(), 3, "warning: latchfs has ended before the command did: nothing of the transaction is in the files\n")
		m.Start(t)
		mustSee(t, "after another crash a stranger", m.view(t), txnOld)
		p = m.Guard(t, "--txn", "f", "--", "bash", "-c", txnWork)
		p.OK()
		m.Crash(t)
		m.Start(t)
		mustSee(t, "after the commit and a crash a stranger", m.view(t), txnNew)
	}, withSeed(txnSeed))
}
