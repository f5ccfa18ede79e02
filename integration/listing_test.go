package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latchfs/integration/internal/wire"
)

// walkers are programs that walk over a tree, each with what it must say there. They
// run in the mount and, for comparison, in a plain directory. $1 is a place outside.
var walkers = map[string]string{
	"ls":     `ls -A; ls -AU | wc -l; ls -la . | wc -l`,
	"find":   `find . | sort`,
	"du":     `du -a . | cut -f2 | sort`,
	"grep":   `grep -rl . . | sort; grep -r nosuchword .`,
	"tar":    `tar cf "$1/x.tar" . && tar tf "$1/x.tar" | sort`,
	"cp":     `cp -r . "$1/copy" && cp -a . "$1/copy2" && find "$1/copy" "$1/copy2" | sed "s,$1,," | sort`,
	"chmod":  `chmod -R u+w . && chown -R "$(id -u)" .`,
	"glob":   `shopt -s dotglob globstar; echo **`,
	"python": `python3 -c 'import os; print(sorted(os.listdir(".")), sorted(d for d, _, _ in os.walk(".")))'`,
}

// outside makes a directory of the mount's user that is not in the mount.
func (m *Mount) outside(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(bench.root, "outside-")
	if err == nil {
		err = os.Chown(dir, m.UID, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The virtual directory is in no listing of the root, so programs that walk over a
// tree do there what they do in a plain directory (DESIGN §3). By its name it is
// reached as before.
func TestWalkersSkipLocks(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		fill := `mkdir d && echo one > a && echo two > d/b && echo three > a`
		beside, out := m.outside(t), m.outside(t)
		m.Bash(t, fill)
		m.Bash(t, `cd "$1" && `+fill, beside)
		for name, script := range walkers {
			want := m.Bash(t, `mkdir "$2/p$3" && cd "$1" && set -- "$2/p$3"; `+script, beside, out, name)
			got := m.Bash(t, `mkdir "$1/m$2" && set -- "$1/m$2"; `+script, out, name)
			if got != want {
				t.Errorf("%s: %+v, in a plain directory %+v", name, got, want)
			}
		}
		if *plain {
			return
		}
		o := m.Bash(t, `[ -d .locks ] && cat .locks/status .locks/README && ls .locks && (cd .locks && ls | grep -q '^status$') && stat .locks .locks/.. >/dev/null`)
		if o.Code != 0 {
			t.Errorf("by name: %+v", o)
		}
	})
}

// A mirror deletes what is not in its source, and nothing else is there to be deleted.
func TestMirrorInTheRoot(t *testing.T) {
	requireTool(t, "rsync")
	forEachMount(t, func(t *testing.T, m *Mount) {
		o := m.Bash(t, `mkdir -p src d && echo old > d/gone && echo new > src/b && S=$(mktemp -d) && mv src "$S" && rsync -a --delete "$S/src/" . && rm -r "$S" && find . | sort`)
		if o.Code != 0 || o.Stdout != ".\n./b\n" || o.Stderr != "" {
			t.Errorf("%+v", o)
		}
	})
}

// A repository at the root gets nothing of ours: neither mounted, nor from the state
// directory when it is not.
func TestRepositoryInTheRoot(t *testing.T) {
	requireTool(t, "git")
	const git = `export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1; git -c safe.directory='*' -c user.name=me -c user.email=me@x `
	forEachMount(t, func(t *testing.T, m *Mount) {
		o := m.Bash(t, git+`init -q . && echo one > a && echo two > a && git add -A && git -c user.name=me -c user.email=me@x commit -qm first && git ls-files && git clean -fdxn && git status --porcelain`)
		if o.Code != 0 || o.Stdout != "a\n" {
			t.Errorf("in the mount: %+v", o)
		}
		if *plain {
			return
		}
		m.Stop(t)
		cmd := m.Bash(t, `cd "$1" && `+git+`status --porcelain --ignored=no`, m.Data)
		if cmd.Code != 0 || cmd.Stdout != "" || cmd.Stderr != "" {
			t.Errorf("unmounted: %+v", cmd)
		}
		m.Start(t)
	})
}

// A state directory from before gets its .gitignore at the next start; one that
// somebody has written stays.
func TestStateIsHiddenFromGit(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	ignore := filepath.Join(m.Data, ".latchfs", ".gitignore")
	for _, tt := range []struct{ before, after string }{{"", "*\n"}, {"*\n!x\n", "*\n!x\n"}} {
		m.Stop(t)
		os.Remove(ignore)
		if tt.before != "" {
			if err := os.WriteFile(ignore, []byte(tt.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m.Start(t)
		if b, err := os.ReadFile(ignore); err != nil || string(b) != tt.after {
			t.Errorf("%q became %q, %v", tt.before, b, err)
		}
	}
}

// The mount option --list-locks shows the directory.
func TestListLocks(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withArgs("--list-locks"))
	if names := m.control.OK(wire.Request{Op: "list", Path: m.Path("")}).Names; !slices.Contains(names, ".locks") {
		t.Errorf("the root lists %q", names)
	}
	if o := m.Bash(t, `ls -a`); !strings.Contains(o.Stdout, ".locks\n") {
		t.Errorf("ls -a: %+v", o)
	}
}

// check and steal say of each name what is so of it, in whatever order they are
// given, also twice.
func TestCheckAnswersInOrder(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withSeed(func(data string) error {
		return os.Mkdir(filepath.Join(data, "d"), 0o755)
	}))
	sh := m.shell(t)
	sh.do(`$L acquire todo.json --name zeta`, 0)
	out := sh.do(`$L check todo.json archive.json todo.json --tree d --name zeta --name alpha --name zeta`, 1)
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		name, what, _ := strings.Cut(line, ": ")
		got = append(got, name+" "+strings.Fields(what)[0])
	}
	want := []string{"todo.json locked", "archive.json free", "todo.json locked", "d free", "zeta locked", "alpha free", "zeta locked"}
	if !slices.Equal(got, want) {
		t.Errorf("check says\n%s", out)
	}
	sh.do(`$L check archive.json archive.json`, 0)
	out = sh.do(`$L steal todo.json archive.json 2>&1`, 8)
	if !strings.Contains(out, "lock on todo.json is active") || !strings.Contains(out, "archive.json: not locked") {
		t.Errorf("steal says\n%s", out)
	}
	sh.do(`$L release --all`, 0)
}

// In a directory that is gone the commands about the past find what was in it.
func TestHistoryInAGoneDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		o := m.Bash(t, `mkdir -p x/y && cd x/y && echo one > f && echo two > f && rm f && rmdir ../y && rmdir ../../x || exit 9
			L=$1; unset PWD
			for c in "history f" "history" "history ." "history ../y/f" "audit f" "restore f 1" "diff f 1" "audit" "history $2/x/y/f"; do
				$L $c > "$2/out" 2>&1; echo "$c: $? $(head -c 200 "$2/out" | head -1)"
			done
			$L undo --actor no-such --since 1h f; cat "$2/x/y/f"`, bench.binary, m.Dir)
		if strings.Contains(o.Stdout+o.Stderr, "goroutine") || strings.Contains(o.Stdout, ": 2 ") {
			t.Errorf("%+v", o)
		}
		for _, want := range []string{"history f: 0 ", "history: 0 ", "restore f 1: 0 x/y/f restored", "diff f 1: 0", "audit f: 0 "} {
			if !strings.Contains(o.Stdout, want) {
				t.Errorf("%q is not in\n%s", want, o.Stdout)
			}
		}
		m.holds(t, "x/y/f", "one\n")
	})
}
