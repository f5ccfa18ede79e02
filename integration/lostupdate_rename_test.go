package integration

import (
	"fmt"
	"strings"
	"testing"
)

// What is known of a file goes with the file when a directory above it is renamed,
// and renaming teaches nothing.

// directoryMoves are ways to give p/d/f another path, and what that path is then.
var directoryMoves = []struct{ name, move, then string }{
	{"directory", `mv p/d p/e`, "p/e/f"},
	{"directory above", `mv p q`, "q/d/f"},
	{"both", `mv p/d p/e; mv p q`, "q/e/f"},
	{"into another", `mkdir r; mv p/d r/d`, "r/d/f"},
	{"away and back", `mv p/d p/e; mv p/e p/d`, "p/d/f"},
	{"by a child of a child", `sh -c 'sh -c "mv p q; true"; true'`, "q/d/f"},
	{"in python", `"$PYTHON" -c 'import os; os.rename("p/d", "e")'`, "e/f"},
	{"swapped", `mkdir -p s/d; echo decoy > s/d/f; mv p t; mv s p; mv t s`, "s/d/f"},
}

// ways to write "$x mine" into the file $f on the basis of what x was read from.
var rewrites = map[string]string{
	"redirect": `echo "$x mine" > "$f"`,
	"mv":       `echo "$x mine" > t1; mv t1 "$f"`,
	"cp":       `echo "$x mine" > t2; cp t2 "$f"`,
	"python":   `"$PYTHON" -c 'import sys; open(sys.argv[1], "w").write(sys.argv[2] + " mine\n")' "$f" "$x"`,
	"away":     `mv "$f" "$f~" && echo "$x mine" > "$f"`,
}

func TestRenamedDirectoryTeachesNothing(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		n := 0
		for _, d := range directoryMoves {
			for how, write := range rewrites {
				n++
				dir := fmt.Sprint("n", n)
				b.OK(`mkdir -p ` + dir + `/p/d; cd ` + dir + `; echo one > p/d/f`)
				a.OK(`cd ` + dir + `; x=$(cat p/d/f); f=` + d.then)
				b.OK(`echo two > p/d/f`)
				a.OK(d.move)
				if out, code := a.Try(write); code == 0 || !saysBusy(out) {
					t.Errorf("%s, %s: not refused: exit %d\n%s", d.name, how, code, out)
				}
				if got := b.OK(`cat ` + d.then + `; cd ..`); got != "two\n" {
					t.Errorf("%s, %s: the other's version is lost: %q", d.name, how, got)
				}
				a.OK(`cd ..`)
			}
		}
	})
}

// Whoever is current stays so, however the directories above are called.
func TestRenamedDirectoryForgetsNothing(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		n := 0
		for _, d := range directoryMoves {
			for how, write := range rewrites {
				n++
				dir := fmt.Sprint("n", n)
				b.OK(`mkdir -p ` + dir + `/p/d; cd ` + dir + `; echo one > p/d/f`)
				a.OK(`cd ` + dir + `; x=$(cat p/d/f); f=` + d.then)
				b.OK(d.move)
				if out, code := a.Try(write); code != 0 {
					t.Errorf("%s, %s: refused: exit %d\n%s", d.name, how, code, out)
				}
				if got := b.OK(`cat ` + d.then); got != "one mine\n" {
					t.Errorf("%s, %s: the file holds %q", d.name, how, got)
				}
				b.OK(`echo three > ` + d.then + `; cd ..`)
				a.OK(`cd ..`)
			}
		}
		noAlarm(t, m)
	})
}

// backAndForth renames the directory d 200 times.
func backAndForth(f *Family) {
	f.OK(`for i in 1 2 3 4 5; do mv d e && mv e d || break; done`)
	f.OK(`"$PYTHON" -c 'import os; [(os.rename("d", "e"), os.rename("e", "d")) for i in range(95)]'`)
}

// However often a directory is renamed, versions below it are counted as they were
// made, and are compared rightly.
func TestDirectoryRenamedBackAndForth(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b, c := m.Family(t), m.Family(t), m.Family(t)
		b.OK(`mkdir d; echo one > d/f; echo one > d/g`)
		a.OK(`x=$(cat d/f d/g)`)
		backAndForth(a)
		a.OK(`echo "$x mine" > d/f`) // it knows the version that is there
		b.OK(`x=$(cat d/f); echo "$x and theirs" > d/f`)
		backAndForth(a)
		a.Refused(`echo "$x mine again" > d/f`)
		backAndForth(c)
		b.OK(`echo theirs > d/f`) // its own version is the newest
		a.OK(`x=$(cat d/f); echo "$x, mine" > d/f`)
		b.Refused(`echo theirs > d/f`)
		if got := c.OK(`cat d/f`); got != "theirs, mine\n" {
			t.Errorf("the file holds %q", got)
		}
		c.OK(`echo blind > d/g`)
		a.Refused(`echo mine > d/g`)
		if *plain {
			return
		}
		for _, name := range []string{"d/f", "d/g"} {
			if e := m.lastConflict(t, "conflict", name); e.Current > 20 || e.Base >= e.Current || e.Base <= 0 {
				t.Errorf("%s: based on version %d, and the file is version %d", name, e.Base, e.Current)
			}
		}
		if out := a.OK(`ls .locks/history/d/f`); strings.Contains(out, "-") {
			t.Errorf("versions are %q", out)
		}
	})
}

// A worker that moves a temporary file into place after another has rewritten it
// publishes what it has never seen.
func TestSharedTemporaryNameIsRefused(t *testing.T) {
	moves := map[string]string{
		"mv":      `mv f.tmp f`,
		"python":  `"$PYTHON" -c 'import os; os.replace("f.tmp", "f")'`,
		"perl":    `perl -e 'rename("f.tmp", "f") or die "$!\n"'`,
		"from sh": `sh -c 'mv -f f.tmp f; exit $?'`,
	}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		requireTool(t, "perl")
		a, b := m.Family(t), m.Family(t)
		for name, move := range moves {
			b.OK(`rm -rf w; mkdir w; cd w; echo one > f`)
			a.OK(`cd w; sed s/one/mine/ f > f.tmp`)
			b.OK(`sed s/one/theirs/ f > f.tmp`)
			if out, code := a.Try(move); code == 0 || !saysBusy(out) {
				t.Errorf("%s: not refused: exit %d\n%s", name, code, out)
			}
			if got := a.OK(`cat f`); got != "one\n" {
				t.Errorf("%s: f holds %q", name, got)
			}
			b.OK(move) // what it has written itself
			if got := a.OK(`cat f`); got != "theirs\n" {
				t.Errorf("%s: f holds %q", name, got)
			}
			a.OK(`sed s/theirs/mine/ f > f.tmp; ` + move)
			if got := b.OK(`cat f; cd ..`); got != "mine\n" {
				t.Errorf("%s: f holds %q", name, got)
			}
			a.OK(`cd ..`)
		}
	})
}

// A link that is made where a file was removed a moment ago replaces that file.
func TestLinkInThePlaceOfAnUnseenVersion(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		b.OK(`echo one > f`)
		a.OK(`x=$(cat f); echo "$x mine" > t`)
		b.OK(`echo theirs > f`)
		a.Refused(`rm f; ln t f`)
		if got := b.OK(`cat f`); got != "theirs\n" {
			t.Errorf("the file holds %q", got)
		}
		a.OK(`x=$(cat f); echo "$x, mine" > t; rm f; ln t f; rm t`)
		if got := b.OK(`cat f`); got != "theirs, mine\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}
