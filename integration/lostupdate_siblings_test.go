package integration

import "testing"

// Of two workers of one script neither replaces by its own what the other has made, whatever
// way it takes: that the script has started both is no reason. In a transaction, too.
func TestSiblingsAreKeptApart(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, way := range []string{
			`echo $((n+1)) > f`,
			`echo $((n+1)) > t; mv t f`,
			`rm f; echo $((n+1)) > f`,
			`echo $((n+1)) > t; rm f; mv t f`,
			`echo $((n+1)) > t; rm f; ln t f`,
			`python3 -c "import os; os.truncate(\"f\", 0)" && echo $((n+1)) >> f`,
		} {
			for _, in := range []string{"", `"$1" guard --txn --name t --`} {
				got := m.Bash(t, `
echo 10 > f; mkfifo ../read ../go
`+in+` bash -c 'n=$(cat f); echo > ../read; read < ../go; `+way+`' & worker=$!
read < ../read
sh -c 'echo 20 > f; true'
echo > ../go
wait $worker && echo replaced
cat f; rm -f f t ../read ../go`, bench.binary)
				mustSee(t, in+" "+way, got.Stdout, "20\n")
			}
		}
		if n := len(m.EventsOf("conflict", "f")); n < 12 { // mv asks twice
			t.Errorf("%d conflicts, want 12 or more", n)
		}
	})
}

// A script may put back the copy that it has made before its changes, also where it removes
// the file first.
func TestBackupIsPutBack(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, back := range []string{"mv f.bak f", "rm f; mv f.bak f", "rm f; cp f.bak f", "cat f.bak > f"} {
			got := m.Bash(t, `echo 1 > f; cp f f.bak; sed -i s/1/2/ f; `+back+`; cat f; rm -f f f.bak t`)
			mustSee(t, back, got.Stdout+got.Stderr, "1\n")
			for _, kind := range []string{"conflict", "lost_update"} {
				if n := len(m.EventsOf(kind, "f")); n > 0 {
					t.Errorf("%s: %d events %s", back, n, kind)
				}
			}
		}
	})
}

// A rewrite that changes nothing is no backup that is put back: what a worker beside it has saved
// meanwhile stays, whether the file is renamed by the process that has written it (sed -i that
// matches nothing) or by the next, and however the two workers were started. Nor does who takes
// the file away and gives it back take back what another has made under its name.
func TestRewriteWithoutChangesIsNoBackup(t *testing.T) {
	needsLatchfs(t)
	const rewrite = `import os; s = open("f").read(); open("t", "w").write(s); open("../read", "w").close(); open("../go").read(); os.rename("t", "f")`
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, way := range []string{
			`exec python3 -c '` + rewrite + `'`,
			`cat f > t; echo > ../read; read < ../go; mv t f`,
			`cat f > /dev/null; mv f t; echo > ../read; read < ../go; mv t f`,
		} {
			m.WriteFile("worker", way)
			for _, start := range []string{
				`bash worker & worker=$!; read < ../read; bash other; echo > ../go; wait $worker`,
				`printf 'all: a b\na: ; @bash worker\nb: ; @read x < ../read; bash other; echo > ../go\n' > Makefile; make -s -j2`,
			} {
				m.WriteFile("other", `{ cat f || echo 10; echo more; } > f.new && mv f.new f`)
				got := m.Bash(t, `echo 10 > f; mkfifo ../read ../go; { `+start+`; } 2> /dev/null && echo replaced; cat f; rm -f f t f.new ../read ../go`)
				mustSee(t, way+" in "+start, got.Stdout, "10\nmore\n")
			}
		}
	})
}

// A transaction in which a file was removed, and what was to take its place was refused, does
// not remove it, however its command ends.
func TestRefusedReplacementRemovesNothing(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, way := range []string{
			`rm f; echo $((n+1)) > f`,
			`echo $((n+1)) > t; rm f; mv t f`,
		} {
			got := m.Bash(t, `
echo 10 > f; mkfifo ../read ../go
"$1" guard --txn --name t -- bash -c 'n=$(cat f); echo > ../read; read < ../go; `+way+`; cat f; exit 0' 2> /dev/null & worker=$!
read < ../read
sh -c 'echo 20 > f; true'
echo > ../go
wait $worker
cat f; rm -f f t ../read ../go`, bench.binary)
			mustSee(t, way, got.Stdout, "20\n20\n")
		}
	})
}

// Two workers of one script take turns with a lock file that each of them makes, reads and
// removes. What one has made and removed itself is no step of the other, who has read what
// was there before and makes the file only if there is none.
func TestLockFileOfTwoWorkers(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os
class Worker:
    def __init__(self):
        r, self.tell = os.pipe()
        self.heard, w = os.pipe()
        if os.fork() == 0:
            os.close(self.tell); os.close(self.heard)
            while what := os.read(r, 1):
                try:
                    if what == b"m": os.close(os.open("turn", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                    if what == b"l":
                        with open("mine%d" % os.getpid(), "w") as f: f.write("me")
                        os.link("mine%d" % os.getpid(), "turn")
                    if what == b"r": open("turn").read()
                    if what == b"u": os.unlink("turn")
                    os.write(w, b".")
                except OSError as e: os.write(w, str(e).encode())
            os._exit(0)
        os.close(r); os.close(w)
    def do(self, what):
        for w in what:
            os.write(self.tell, w.encode())
            got = os.read(self.heard, 1000).decode()
            if got != ".": print(what, "->", got)
for makes in "m", "l":
    a, b = Worker(), Worker()
    a.do(makes); b.do("r"); a.do("u" + makes + "u"); b.do(makes)
    os.unlink("turn")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		if out := m.Python(t, script); out != "" {
			t.Error(out)
		}
	})
}
