package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"latchfs/integration/internal/counting"
)

// Promise 4 for programs that open a file for reading and writing: the open does not
// tell whether they will read first.

// Workers that read a counter, open it again and write without reading are refused
// where the counter has changed in between. Those that try again succeed.
func TestCountersInPlaceLoseNothing(t *testing.T) {
	inStress(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for i, tool := range counting.InPlace(bench.python) {
			workers, each := 8, 50
			if i > 0 {
				workers, each = 4, repeat(10, 50)
			}
			if i > 0 && m.Name != "root" && !stress() {
				continue
			}
			t.Run(tool.Name, func(t *testing.T) {
				checkCount(t, m.count(t, tool, counting.Plan{Workers: workers, Increments: each}))
			})
			t.Run(tool.Name+"-retry", func(t *testing.T) {
				each := min(each, repeat(15, 50))
				r := m.count(t, tool, counting.Plan{Workers: workers, Increments: each, Retry: true})
				checkCount(t, r)
				if r.Final != workers*each {
					t.Errorf("the counter shows %d, want %d", r.Final, workers*each)
				}
			})
		}
	})
}

// inPlace runs a piece of Python with a descriptor of f for reading and writing; what
// it raises is its exit status.
func inPlace(body string) string { return opened("O_RDWR", body) }

// writeOnly is inPlace with a descriptor for writing alone.
func writeOnly(body string) string { return opened("O_WRONLY", body) }

func opened(flags, body string) string {
	script := "import os, mmap\nfd = os.open('f', os." + flags + ")\n" + body + "\n"
	return `"$PYTHON" -c $'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(script) + `'`
}

// appends is inPlace for one that appends, and makes the file if it is not there.
func appends(body string) string { return `"$PYTHON" -c "h = open('f', 'a+'); ` + body + `"` }

// What reads the version that it has opened may change it, however it reads; and what
// changes nothing is nobody's business.
func TestStaleOpenThatReadsMayWrite(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	cases := []struct{ name, run, want string }{
		{"read", inPlace(`d = os.read(fd, 100); os.pwrite(fd, d.upper(), 0); os.close(fd)`), "TWO\n"},
		{"read a byte", inPlace(`os.pread(fd, 1, 0); os.ftruncate(fd, 1); os.close(fd)`), "t"},
		{"read at the end", inPlace(`os.lseek(fd, 0, 2); assert not os.read(fd, 1); os.write(fd, b'more'); os.close(fd)`), "two\nmore"},
		{"buffered", inPlace(`h = os.fdopen(fd, 'r+'); d = h.read(); h.seek(0); h.write(d[0]); h.truncate(); h.close()`), "t"},
		{"another descriptor, write only", writeOnly(`d = open('f').read(); os.pwrite(fd, d[1:2].encode(), 0); os.close(fd)`), "wwo\n"},
		{"read under the lock", writeOnly(`import fcntl; fcntl.flock(fd, fcntl.LOCK_EX); d = open('f').read(); os.ftruncate(fd, 0); os.write(fd, d[1:2].encode()); os.close(fd)`), "w"},
		{"another descriptor", inPlace(`d = open('f').read(); os.pwrite(fd, d[1:2].encode(), 0); os.close(fd)`), "wwo\n"},
		{"sent elsewhere", inPlace(`p = os.pipe(); os.sendfile(p[1], fd, 0, 4); os.pwrite(fd, b'X', 0); os.close(fd)`), "Xwo\n"},
		{"copied elsewhere", inPlace(`o = os.open('g', os.O_RDWR | os.O_CREAT); os.copy_file_range(fd, o, 4, 0); os.pwrite(fd, b'X', 0); os.close(fd)`), "Xwo\n"},
		{"mapped", inPlace(`m = mmap.mmap(fd, 0); m[0:1] = b'X'; m.close(); os.close(fd)`), "Xwo\n"},
		{"mapped and closed", inPlace(`m = mmap.mmap(fd, 0); os.close(fd); m[0:1] = b'X'; m.close()`), "Xwo\n"},
		{"mapped and synced", inPlace(`m = mmap.mmap(fd, 0); m[0:1] = b'X'; m.flush(); os.fsync(fd); os.close(fd); m.close()`), "Xwo\n"},
		{"read in a mapping", inPlace(`m = mmap.mmap(fd, 0, prot=mmap.PROT_READ); d = m[0:1]; m.close(); os.pwrite(fd, d, 1); os.close(fd)`), "tto\n"},
		{"read in a private mapping", inPlace(`m = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY); d = m[0:1]; m.close(); os.pwrite(fd, d, 1); os.close(fd)`), "tto\n"},
		{"read and mapped", inPlace(`d = os.read(fd, 1); m = mmap.mmap(fd, 0); m[1:2] = d; os.pwrite(fd, b'X', 2); m.close(); os.close(fd)`), "ttX\n"},
		{"grown and mapped", inPlace(`os.read(fd, 1); os.ftruncate(fd, 8); m = mmap.mmap(fd, 8); m[4:8] = b'more'; m.close(); os.close(fd)`), "two\nmore"},
		{"by a child", inPlace(`import subprocess; subprocess.run(['cat'], stdin=fd, check=True); os.pwrite(fd, b'X', 0); os.close(fd)`), "Xwo\n"},
		{"append, read and cut", appends(`h.seek(0); d = h.read(); h.truncate(0); h.write(d.upper()); h.close()`), "TWO\n"},
		{"append", appends(`h.write('more'); h.close()`), "two\nmore"},
		{"shell", `exec 3<> f; read -u 3 x; echo more >&3; exec 3>&-`, "two\nmore\n"},
		{"shell and child", `exec 3<> f; cat <&3; echo more >&3; exec 3>&-`, "two\nmore\n"},
		{"under a lock", `exec 3<> f; flock 3; x=$(cat f); echo "$x more" > f; exec 3>&-`, "two more\n"},
		{"in the same place", `"$PYTHON" -c $'import fcntl\nwith open("f", "r+") as h:\n  fcntl.flock(h, fcntl.LOCK_EX); d = h.read(); h.seek(0); h.write(d.upper())'`, "TWO\n"},
		{"nothing", inPlace(`os.fstat(fd); os.lseek(fd, 0, 2); os.fsync(fd); os.close(fd)`), "two\n"},
		{"metadata", inPlace(`os.fchmod(fd, 0o600); os.utime(fd); os.close(fd)`), "two\n"},
		{"a mapping that nobody touches", inPlace(`m = mmap.mmap(fd, 0); m.close(); os.close(fd)`), "two\n"},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for i, c := range cases {
			dir := "d" + strconv.Itoa(i)
			b.OK(`mkdir ` + dir + `; cd ` + dir + `; echo one > f`)
			a.OK(`cd ` + dir + `; x=$(cat f)`)
			b.OK(`echo two > f`)
			if out, code := a.Try(c.run); code != 0 || saysBusy(out) {
				t.Errorf("%s: exit %d\n%s", c.name, code, out)
			}
			// The kernel does not wait for us when the last mapping goes.
			eventually(t, c.name+" to be committed", func() bool { return m.ReadFile(dir+"/f") == c.want })
			b.OK(`cd ..`)
			a.OK(`cd ..`)
		}
		noAlarm(t, m)
	})
}

// A change before any read is refused, at once and at the close, and leaves the file
// alone; what was to be written is kept.
func TestStaleOpenThatDoesNotReadIsRefused(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	fails := func(what string) string {
		return "import errno\ndef fails(do, *a):\n  try: do(*a)\n  except OSError as e: assert e.errno == errno.EBUSY, e; return\n  assert False, 'not refused'\n" + what
	}
	cases := []struct{ name, run, kept string }{
		{"write", inPlace(`os.pwrite(fd, b'mine', 0)`), "mine"},
		{"write beyond the end", inPlace(`os.lseek(fd, 0, 2); os.write(fd, b'mine')`), "two\nmine"},
		{"buffered", inPlace(`h = os.fdopen(fd, 'r+'); h.seek(0); h.write('mine'); h.close()`), "mine"},
		{"truncate", inPlace(`os.ftruncate(fd, 0)`), ""},
		{"truncate by name", inPlace(`os.truncate('f', 0)`), ""},
		{"append and cut", appends(`h.seek(0); h.truncate(); h.write('mine'); h.close()`), ""},
		{"allocate", inPlace(`os.posix_fallocate(fd, 0, 4)`), "two\n"},
		{"copy into", `echo mine > g; ` + inPlace(`g = os.open('g', os.O_RDONLY); os.copy_file_range(g, fd, 4)`), "mine"},
		{"send into", `echo mine > g; ` + inPlace(`g = os.open('g', os.O_RDONLY); os.sendfile(fd, g, 0, 4)`), "mine"},
		{"shell", `exec 3<> f; echo mine >&3`, "mine\n"},
		{"child of a shell", `exec 3<> f; /bin/echo mine >&3`, "mine\n"},
		{"the close alone", inPlace("try: os.write(fd, b'mine')\nexcept OSError: pass\nos.close(fd)"), "mine"},
		{"after a read that came too late", inPlace(fails(`fails(os.write, fd, b'mine'); os.pread(fd, 9, 0); fails(os.write, fd, b'still'); fails(os.ftruncate, fd, 5); os.close(fd)`)), "still"},
		{"by a child", inPlace(`import subprocess; subprocess.run(['sh', '-c', 'printf mine'], stdout=fd); os.close(fd)`), "mine"},
		{"write only", writeOnly(`os.write(fd, b'mine')`), "mine"},
		{"cut that does not look, as PHP's", writeOnly("import fcntl\nfcntl.flock(fd, fcntl.LOCK_EX)\ntry: os.ftruncate(fd, 0)\nexcept OSError: pass\nos.write(fd, b'mine')"), "mine"},
		{"duplicate", inPlace("d = os.dup(fd)\ntry: os.write(fd, b'mine')\nexcept OSError: pass\n" + fails(`fails(os.close, d); os.close(fd)`)), "mine"},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for i, c := range cases {
			dir := "d" + strconv.Itoa(i)
			b.OK(`mkdir ` + dir + `; cd ` + dir + `; echo one > f`)
			a.OK(`cd ` + dir + `; x=$(cat f)`)
			b.OK(`echo two > f; cd ..`)
			before := len(m.List(".locks/rejected"))
			if out, code := a.Try(c.run); code == 0 || !saysBusy(out) {
				t.Errorf("%s was not refused: exit %d\n%s", c.name, code, out)
			}
			if why := a.OK(`cat ../.locks/why`); !strings.Contains(why, " "+dir+"/f: EBUSY") {
				t.Errorf("%s: why says\n%s", c.name, why)
			}
			if len(m.EventsOf("conflict", dir+"/f")) == 0 {
				t.Errorf("%s: no event", c.name)
			}
			if got := m.ReadFile(dir + "/f"); got != "two\n" {
				t.Errorf("%s: f holds %q", c.name, got)
			}
			a.Try(`exec 3>&-`)
			if got := m.ReadFile(dir + "/f"); got != "two\n" {
				t.Errorf("%s: f holds %q after the close", c.name, got)
			}
			if n := len(m.List(".locks/rejected")); (c.kept == "") != (n == before) {
				t.Errorf("%s: %d more entries are kept", c.name, n-before)
			}
			if kept := m.rejectedBytes(); !strings.Contains(kept, c.kept) {
				t.Errorf("%s: kept are %.500q", c.name, kept)
			}
			a.OK(`x=$(cat f); ` + inPlace(`os.pwrite(fd, b'now', 0); os.close(fd)`) + `; cd ..`)
			if got := m.ReadFile(dir + "/f"); got != "now\n" {
				t.Errorf("%s: read again, and f holds %q", c.name, got)
			}
		}
	})
}

// A process that knows the current version, or whose ancestors know none, is not asked
// whether it reads.
func TestOpenThatIsNotStaleMayWrite(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		write := inPlace(`os.pwrite(fd, b'X', 0); os.close(fd)`)
		a.OK(`echo one > f; ` + write)
		b.OK(write)
		a.Refused(write)
		a.OK(`cat f; ` + write + `; ` + write)
		if n := len(m.EventsOf("conflict", "f")); n != 1 {
			t.Errorf("%d conflicts", n)
		}
	})
}

// What the policy says about lost updates holds for such a handle, too.
func TestStaleOpenUnderPolicies(t *testing.T) {
	needsLatchfs(t)
	const policies = `
[[rule]]
glob = "warn"
lost-update = "warn"
[[rule]]
glob = "off"
lost-update = "off"
[[rule]]
glob = "*.json"
lost-update = "merge"
`
	save := func(name, body string) string {
		return `"$PYTHON" -c $'import json\nf = open("` + name + `", "r+")\n` + body + `\nf.close()'`
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		b.OK(`for f in warn off; do echo one > $f; done; for f in cut begin middle; do printf '{\n"a": 1,\n"z": 1\n}\n' > $f.json; done`)
		a.OK(`cat warn off *.json`)
		b.OK(`for f in warn off; do echo two > $f; done; for f in cut begin middle; do printf '{\n"theirs": 1,\n"a": 1,\n"z": 1\n}\n' > $f.json; done`)
		mine := `d = dict(a=1, z=1, mine=1)\n`
		a.OK(`for f in warn off; do exec 3<> $f; echo my >&3; exec 3>&-; done`)
		a.OK(save("cut.json", mine+`f.truncate(0); json.dump(d, f)`))
		a.OK(save("begin.json", mine+`json.dump(d, f); f.truncate()`))
		a.Refused(save("middle.json", mine+`f.seek(2); f.write("x")`))
		for name, want := range map[string]string{"warn": "my\n\n", "off": "my\n\n"} {
			if got := b.OK(`cat ` + name); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
		for _, name := range []string{"cut.json", "begin.json"} {
			got := map[string]int{}
			m.decode(m.ReadFile(name), &got)
			if len(got) != 4 || got["mine"]+got["theirs"] != 2 {
				t.Errorf("%s holds %v", name, got)
			}
		}
		if got := m.ReadFile("middle.json"); strings.Contains(got, "x") || !strings.Contains(got, "theirs") {
			t.Errorf("middle.json holds %q", got)
		}
		for name, kinds := range map[string][]int{"warn": {1, 0}, "off": {0, 0}, "cut.json": {0, 0}, "begin.json": {0, 0}, "middle.json": {0, 1}} {
			if got := []int{len(m.EventsOf("lost_update", name)), len(m.EventsOf("conflict", name))}; !slices.Equal(got, kinds) {
				t.Errorf("%s: events %v, want %v", name, got, kinds)
			}
		}
	}, withPolicy(policies))
}

// A database under a name that nobody foresaw reads under the lock that shows it: it
// goes live whatever its user has known before.
func TestStaleOpenOfADatabase(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "sqlite3")
	seed := func(data string) error {
		for n, name := range []string{"old", "new"} {
			out, err := exec.Command("sqlite3", filepath.Join(data, name), fmt.Sprintf("create table t(i); insert into t values (%d)", n)).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		b.OK(`cp old store`)
		a.OK(`cksum store`)
		b.OK(`cp new store`)
		a.OK(`sqlite3 store 'insert into t values (2); insert into t values (3)'`)
		b.OK(`sqlite3 store 'insert into t values (4)'`)
		a.OK(`sqlite3 store 'pragma journal_mode = wal; insert into t values (5)'`)
		if got := b.OK(`sqlite3 store 'select group_concat(i) from t; pragma integrity_check'`); got != "1,2,3,4,5\nok\n" {
			t.Errorf("the database holds %q", got)
		}
		m.AwaitEvent("auto_live", "store")
		noAlarm(t, m)
	}, withSeed(seed))
}

// Programs that read a file themselves before they change it are not refused for what
// their script has read earlier.
func TestProgramsThatReadAgainAreNotStale(t *testing.T) {
	needsLatchfs(t)
	cases := []struct{ name, needs, run, want string }{
		{"sort", "sort", `sort -r -o f f`, "two\none\n"},
		{"sed", "sed", `sed -i s/o/0/g f`, "0ne\ntw0\n"},
		{"perl", "perl", `perl -e 'open(F, "+<", "f") or die; $x = <F>; seek(F, 0, 0); print F uc $x; close(F) or die'`, "ONE\ntwo\n"},
		{"node", "node", `node -e 'const fs = require("fs"); const d = fs.openSync("f", "r+"); const b = Buffer.alloc(3); fs.readSync(d, b, 0, 3, 0); fs.writeSync(d, b, 0, 3, 4); fs.closeSync(d)'`, "one\none\n"},
		{"rsync", "rsync", `echo longer text > g; rsync -I --inplace --no-whole-file g f`, "longer text\n"},
		{"dd", "dd", `dd if=f of=f bs=1 skip=4 seek=0 count=3 conv=notrunc status=none`, "two\ntwo\n"},
		{"vim", "vim", `vim -es -u NONE -i NONE -N -c '%s/two/three/' -c 'wq' f`, "one\nthree\n"},
		{"emacs", "emacs", `emacs -Q --batch f --eval '(progn (insert "x") (save-buffer))'`, "xone\ntwo\n"},
		{"git", "git", `git init -q . && git add f && git -c user.name=a -c user.email=a@b commit -qm a && echo three >> f && git checkout -q f`, "one\ntwo\n"},
	}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for _, c := range cases {
			if !installed(c.needs) {
				continue
			}
			b.OK(`mkdir ` + c.name + `; cd ` + c.name + `; echo one > f`)
			a.OK(`cd ` + c.name + `; x=$(cat f)`)
			b.OK(`printf 'one\ntwo\n' > f`)
			if out, code := a.Try(c.run); code != 0 || saysBusy(out) {
				t.Errorf("%s: exit %d\n%s", c.name, code, out)
			}
			if got := b.OK(`cat f; cd ..`); got != c.want {
				t.Errorf("%s: f holds %q, want %q", c.name, got, c.want)
			}
			a.OK(`cd ..`)
		}
		noAlarm(t, m)
	})
}
