package integration

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What a policy's validators refuse does not become a version, whichever way it
// comes (requirements C10 and C12).

const validated = `
[[rule]]
glob = ["*.json"]
validate = ["json", "non-empty"]

[[rule]]
glob = ["*.jsonl"]
validate = ["jsonl"]
max-size = "1KiB"

[[rule]]
glob = ["*.toml"]
validate = ["toml"]

[[rule]]
glob = ["*.yaml"]
validate = ["yaml"]

[[rule]]
glob = ["small/*"]
max-size = "10B"
`

const goodJSON = `{"v": 1}` + "\n"

// badWays are ways to write bad JSON into todo.json, which is good. What is
// expected on standard error is an exit status with it; "" is a program that does
// not look at the error of its close.
var badWays = []struct {
	name, script string
	says         string
	operation    string // of the refusal
	kept         string // under .locks/rejected/
	left         string // a file that has the bytes still
	needs        string
}{
	{name: "python", script: `"$PYTHON" -c 'f = open("todo.json", "w"); f.write("{\"v\": 2"); f.close()'`,
		says: "OSError: [Errno 74] Bad message", operation: "open", kept: `{"v": 2`},
	{name: "python-at-exit", script: `"$PYTHON" -c 'f = open("todo.json", "w"); f.write("{\"v\": 2")'`, operation: "open", kept: `{"v": 2`},
	{name: "python-append", script: `"$PYTHON" -c 'f = open("todo.json", "a"); f.write("}"); f.close()'`,
		says: "Bad message", operation: "open", kept: goodJSON + "}"},
	{name: "redirect", script: `echo '{"v": 2' > todo.json`, operation: "open", kept: `{"v": 2`},
	{name: "empty", script: `: > todo.json`, operation: "open"},
	{name: "blank", script: `echo > todo.json`, operation: "open", kept: "\n"},
	{name: "append-redirect", script: `echo ']' >> todo.json`, operation: "open", kept: goodJSON + "]"},
	{name: "cp", script: `echo '{"v": 2' > bad; cp bad todo.json`, says: "Bad message", operation: "open", kept: `{"v": 2`},
	{name: "tee", script: `echo '{"v": 2' | tee todo.json >/dev/null`, says: "Bad message", operation: "open", kept: `{"v": 2`},
	{name: "dd", script: `printf x | dd of=todo.json conv=notrunc bs=1 seek=3 status=none`, says: "Bad message", operation: "open", kept: `{"vx: 1}`},
	{name: "truncate", script: `truncate -s 4 todo.json`, says: "Bad message", operation: "truncate", kept: `{"v"`},
	{name: "mapping", script: `"$PYTHON" -c '
import mmap, os
fd = os.open("todo.json", os.O_RDWR)
m = mmap.mmap(fd, 0)
m[:1] = b"["
m.close()
os.close(fd)'`, says: "Bad message", operation: "open", kept: `["v": 1}`},
	{name: "mv", script: `echo '{"v": 2' > t && mv t todo.json`, says: "Bad message", operation: "rename", left: "t"},
	{name: "jq-mv", script: `jq -r '"{" + (.v | tostring)' todo.json > t && mv t todo.json`, says: "Bad message", operation: "rename", left: "t", needs: "jq"},
	{name: "python-replace", script: `"$PYTHON" -c '
import os
with open("t", "w") as f: f.write("{\"v\": 2")
os.replace("t", "todo.json")'`, says: "OSError: [Errno 74] Bad message", operation: "rename", left: "t"},
	{name: "replace-before-close", script: `"$PYTHON" -c '
import os
with open("t", "w") as f:
    f.write("{\"v\": 2")
    f.flush()
    os.replace("t", "todo.json")'`, says: "OSError: [Errno 74] Bad message", operation: "rename", left: "t"},
	{name: "sed-i", script: `sed -i 's/}//' todo.json`, says: "Bad message", operation: "rename"},
	{name: "perl-i", script: `perl -i -pe 's/}//' todo.json`, says: "Bad message", operation: "rename", needs: "perl"},
	{name: "ln", script: `echo '{"v": 2' > t; ln -f t todo.json`, says: "Bad message", operation: "link", left: "t"},
	{name: "vim", script: `vim -es -u NONE -i NONE -N -c '%s/}//' -c w -c q! todo.json < /dev/null; cat todo.json; exit 1`,
		says: "*", operation: "open", needs: "vim"},
	{name: "vim-in-place", script: `vim -es -u NONE -i NONE -N -c 'set backupcopy=yes' -c '%s/}//' -c w -c q! todo.json < /dev/null; cat todo.json; exit 1`,
		says: "*", operation: "open", needs: "vim"},
	{name: "hard-link", script: `ln todo.json other; "$PYTHON" -c 'f = open("todo.json", "w"); f.write("{"); f.close()'`,
		says: "Bad message", operation: "open", kept: "{"},
	{name: "child", script: `{ (printf '{') ; (printf '"v"') ; } > todo.json`, operation: "open", kept: `{"v"`},
}

func TestBadContentIsRefused(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for i, way := range badWays {
			t.Run(way.name, func(t *testing.T) {
				if way.needs != "" {
					requireTool(t, way.needs)
				}
				dir := "d" + string(rune('a'+i))
				m.Mkdir(dir)
				m.WriteFile(dir+"/todo.json", goodJSON)
				before := len(m.rejections())
				out := m.Bash(t, "cd "+dir+"\n"+way.script)
				if failed := out.Code != 0; failed != (way.says != "") || way.says != "*" && !strings.Contains(out.Stderr, way.says) {
					t.Errorf("it ended with %d and said %q, want %q", out.Code, out.Stderr, way.says)
				}
				if got := m.ReadFile(dir + "/todo.json"); got != goodJSON {
					t.Errorf("the file holds %q", got)
				}
				m.wantRefused(t, dir+"/todo.json", way.operation)
				if kept := m.rejections()[before:]; way.kept != "" && !slices.ContainsFunc(kept, func(s string) bool { return strings.TrimSuffix(s, "\n") == strings.TrimSuffix(way.kept, "\n") }) {
					t.Errorf("kept is %q, want %q", kept, way.kept)
				}
				if way.left != "" && !strings.HasPrefix(m.ReadFile(dir+"/"+way.left), "{") {
					t.Errorf("what was to be renamed holds %q", m.ReadFile(dir+"/"+way.left))
				}
				m.WriteFile(dir+"/todo.json", `{"v": 3}`) // the lock is free, and good content passes
			})
		}
	}, withPolicy(validated))
}

// wantRefused wants an event that says who refused a file's content.
func (m *Mount) wantRefused(t *testing.T, path, operation string) {
	t.Helper()
	for _, e := range m.Events() {
		if other := "as " + path + ", another name of the file: "; strings.HasPrefix(e.Reason, other) {
			e.Path, e.Reason = path, strings.TrimPrefix(e.Reason, other)
		}
		if e.Path == path && (e.Event == "refusal" || e.Event == "rollback") && e.Errno == "EBADMSG" {
			if e.Validator == "" || !strings.HasPrefix(e.Reason, e.Validator+": ") {
				t.Errorf("the event names the validator %q, and the reason %q", e.Validator, e.Reason)
			}
			if want := map[string]string{"open": "rollback", "truncate": "rollback", "append": "rollback"}[operation]; e.Event != cmp.Or(want, "refusal") {
				t.Errorf("a refused %s is the event %s", operation, e.Event)
			}
			return
		}
	}
	t.Errorf("no event tells that %s was refused", path)
}

// rejections is what is kept of refused writes, oldest first.
func (m *Mount) rejections() []string {
	m.t.Helper()
	return m.tree(".locks/rejected", "content")
}

// Good content passes, and what was bad already can be read, kept and replaced.
func TestGoodContentPasses(t *testing.T) {
	needsLatchfs(t)
	seed := withSeed(func(data string) error {
		return errors.Join(os.WriteFile(data+"/bad.json", []byte("{"), 0o644), os.WriteFile(data+"/empty.json", nil, 0o644))
	})
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.LaunchBash(t, `set -e
			echo '{"v": 1}' > new.json
			"$PYTHON" -c 'import json; json.dump({"v": 2}, open("new.json", "w"))'
			sed -i s/2/3/ new.json
			echo '{"v": 4}' > t; mv t new.json
			: > a.toml; echo 'a = 1' >> a.toml
			printf 'a: 1\n---\nb: 2\n' > a.yaml
			mkdir small; printf 0123456789 > small/f
			cat bad.json
			: <> bad.json
			chmod 600 bad.json
			mv bad.json away; ln away link
			echo '{}' > empty.json
			truncate -s 0 link
		`).OK()
		if got := m.ReadFile("new.json"); got != "{\"v\": 4}\n" {
			t.Errorf("new.json holds %q", got)
		}
		for _, e := range m.Events() {
			if e.Errno == "EBADMSG" {
				t.Errorf("refused: %+v", e)
			}
		}
	}, withPolicy(validated), seed)
}

// Each format by its name, and a new file that is refused does not come to be.
func TestFormats(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		m.Mkdir("small")
		for name, bad := range map[string]string{
			"f.toml": "a = \n", "f.yaml": "a: [", "f.json": "", "f.jsonl": "{}\n{", "g.jsonl": strings.Repeat("1234567\n", 200), "small/f": "0123456789A",
		} {
			if err := c.Save(name, bad); err != unix.EBADMSG {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := c.Stat(name); err != unix.ENOENT {
				t.Errorf("%s afterwards: %v", name, err)
			}
		}
	}, withPolicy(validated))
}

// Names that change hands in other ways.
func TestContentOfNames(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		save := func(name, content string) {
			t.Helper()
			if err := c.Save(name, content); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		save("bad", "{")
		save("good", "{}")
		save("f.json", "[1]")
		m.Mkdir("dir.json") // a directory has no content
		exchange := c.path2("rename", "f.json", "bad")
		exchange.Flags = unix.RENAME_EXCHANGE
		noreplace := c.path2("rename", "bad", "g.json")
		noreplace.Flags = unix.RENAME_NOREPLACE
		mknod := wire.Request{Op: "mknod", Path: m.Path("h.json"), Mode: unix.S_IFREG | 0o644}
		for _, bad := range []wire.Request{exchange, c.path2("rename", "bad", "f.json"), noreplace, c.path2("link", "bad", "g.json"), mknod} {
			if _, err := c.Do(bad); err != unix.EBADMSG {
				t.Errorf("%s %s to %s: %v", bad.Op, bad.Path, bad.To, err)
			}
		}
		if got := c.List(""); !slices.Equal(got, []string{"bad", "dir.json", "f.json", "good"}) {
			t.Errorf("there are %q", got)
		}
		exchange.To = m.Path("good")
		c.OK(exchange)
		if got := c.ReadFile("f.json"); got != "{}" {
			t.Errorf("after the exchange f.json holds %q", got)
		}
		c.OK(c.path2("link", "good", "g.json"))
		// A session goes on under the new name, and its commit is judged by that.
		fd := c.Open("bad", unix.O_RDWR|unix.O_TRUNC)
		c.Write(fd, "{")
		if _, err := c.Do(c.path2("rename", "bad", "i.json")); err != unix.EBADMSG {
			t.Errorf("rename of a bad file under way: %v", err)
		}
		c.MustClose(fd)
		save("bad", "{}")
		fd = c.Open("bad", unix.O_RDWR)
		c.OK(c.path2("rename", "bad", "i.json"))
		c.Write(fd, "[")
		if err := c.Close(fd); err != unix.EBADMSG {
			t.Errorf("close under the new name: %v", err)
		}
		if got := c.ReadFile("i.json"); got != "{}" {
			t.Errorf("i.json holds %q", got)
		}
	}, withPolicy(validated))
}

// A file that validators look at is a session's until it is closed, whatever its
// program does meanwhile.
func TestValidatedFilesDoNotGoLive(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		m.WriteFile("f.json", goodJSON)
		fd := c.Open("f.json", unix.O_RDWR)
		for range 3 {
			c.Write(fd, "[")
			c.OK(wire.Request{Op: "fsync", FD: fd})
		}
		if got := m.ReadFile("f.json"); got != goodJSON {
			t.Errorf("a reader finds %q", got)
		}
		if _, err := c.Do(c.path2("link", "f.json", "other")); err != unix.EBUSY {
			t.Errorf("a link to the file under way: %v", err)
		}
		if err := c.Close(fd); err != unix.EBADMSG {
			t.Errorf("close: %v", err)
		}
		if got := m.ReadFile("f.json"); got != goodJSON {
			t.Errorf("afterwards it holds %q", got)
		}
		// The validators may be those of a name that it got meanwhile.
		fd = c.Open("draft", unix.O_RDWR|unix.O_CREAT)
		c.Write(fd, goodJSON)
		c.OK(c.path2("rename", "draft", "g.json"))
		for range 3 {
			c.Write(fd, "[")
			c.OK(wire.Request{Op: "fsync", FD: fd})
		}
		if got := m.ReadFile("g.json"); got != goodJSON {
			t.Errorf("a reader of the new name finds %q", got)
		}
		if err := c.Close(fd); err != unix.EBADMSG {
			t.Errorf("close under the new name: %v", err)
		}
		if got := m.ReadFile("g.json"); got != goodJSON {
			t.Errorf("afterwards the new name holds %q", got)
		}
	}, withPolicy(validated))
}

// Records that are appended are judged one batch at a time.
func TestAppendedRecordsAreJudged(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.LaunchBash(t, `set -e; echo '{"n": 1}' >> log.jsonl; echo '{"n": 2}' >> log.jsonl`).OK()
		out := m.Bash(t, `exec 3>> log.jsonl; printf '{"n": }\n' >&3; a=$?; exec 3>&-; echo '{"n": 3}' >> log.jsonl; exit $a`)
		if out.Code != 1 || !strings.Contains(out.Stderr, "Bad message") {
			t.Errorf("bad record: exit status %d, %q", out.Code, out.Stderr)
		}
		want := `{"n": 1}` + "\n" + `{"n": 2}` + "\n" + `{"n": 3}` + "\n"
		if got := m.ReadFile("log.jsonl"); got != want {
			t.Errorf("the log holds %q", got)
		}
		m.wantRefused(t, "log.jsonl", "append")
		// A line that comes in pieces is refused as a whole, and is not in the way of
		// the next; so is one that never gets its newline.
		out = m.Bash(t, `exec 3>> log.jsonl; printf '{"n": ' >&3; printf '[}\n' >&3; echo $?; echo '{"n": 4}' >&3`)
		if out.Stdout != "1\n" || out.Code != 0 {
			t.Errorf("a line in pieces: %+v", out)
		}
		out = m.LaunchPython(t, `
f = open("log.jsonl", "a")
f.write('{"n": 5')
f.close()`).Wait()
		if out.Code == 0 || !strings.Contains(out.Stderr, "Bad message") {
			t.Errorf("an unfinished record: %+v", out)
		}
		want += `{"n": 4}` + "\n"
		if got := m.ReadFile("log.jsonl"); got != want {
			t.Errorf("the log holds %q", got)
		}
		if kept := m.rejections(); !slices.Equal(kept, []string{"{\"n\": }\n", "{\"n\": [}\n", `{"n": 5`}) {
			t.Errorf("kept is %q", kept)
		}
		c := m.Client(t)
		fd := c.Open("log.jsonl", unix.O_WRONLY|unix.O_APPEND)
		for size, want := range map[int64]error{5: unix.EBADMSG, 1000: unix.EBADMSG, 18: nil} {
			if _, err := c.Do(wire.Request{Op: "ftruncate", FD: fd, Len: size}); err != want {
				t.Errorf("ftruncate to %d: %v, want %v", size, err, want)
			}
		}
		c.MustClose(fd)
		if err := c.Save("log.jsonl", strings.Repeat("1234567\n", 127)); err != nil {
			t.Fatal(err)
		}
		out = m.Bash(t, `echo 12345678 >> log.jsonl`)
		if out.Code == 0 || !strings.Contains(out.Stderr, "Bad message") {
			t.Errorf("more than max-size: exit status %d, %q", out.Code, out.Stderr)
		}
	}, withPolicy(validated))
}

// The settings of examples/policies/cleo.toml, seen from a script (requirements C4,
// C10, C12).
func TestCleoPolicy(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq")
		m.LaunchBash(t, `set -e
			echo '{"tasks": []}' > todo.json
			add() (
				exec 200>todo.json.lock
				flock -x -w 30 200
				jq --arg t "$1" '.tasks += [$t]' todo.json > todo.json.tmp
				mv todo.json.tmp todo.json
				echo "{\"added\": \"$1\"}" >> todo-log.jsonl
			)
			for i in 1 2 3 4 5; do add $i & done
			wait
			[ "$(jq -c '.tasks | sort' todo.json)" = '["1","2","3","4","5"]' ]
			[ "$(wc -l < todo-log.jsonl)" = 5 ]
			! { echo '{"tasks": [' > todo.json.tmp; mv todo.json.tmp todo.json; } 2>/dev/null
			: > todo.json
			[ "$(jq '.tasks | length' todo.json)" = 5 ]
			rm todo.json.lock
			exec 200>todo.json.lock
			flock -n 200
			! ( exec 201>todo.json.lock; flock -n 201 )`).OK()
	}, withArgs("--preset", "cleo"))
}

// A base that is no longer current is found out before the validators are asked.
func TestConflictComesBeforeValidation(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f.json", goodJSON)
		c := m.Client(t)
		fd := c.Open("f.json", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "{")
		if err := os.WriteFile(m.Data+"/f.json", []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(fd); err != unix.EBUSY {
			t.Errorf("close: %v", err)
		}
	}, withPolicy(validated))
}

// What validators refuse takes its whole transaction with it.
func TestTransactionIsJudged(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a.json", goodJSON)
		m.WriteFile("b.json", goodJSON)
		bad := m.Guard(t, "--txn", "a.json", "b.json", "--", "bash", "-c", `echo '{}' > a.json; echo '{' > b.json`).Wait()
		if bad.Code == 0 || !strings.Contains(bad.Stderr, "b.json: json: line 2, column 1: the content ends inside an object") {
			t.Errorf("guard ended with %+v", bad)
		}
		for _, name := range []string{"a.json", "b.json"} {
			if got := m.ReadFile(name); got != goodJSON {
				t.Errorf("%s holds %q", name, got)
			}
		}
		m.Guard(t, "--txn", "a.json", "b.json", "--", "bash", "-c", `echo '{}' > a.json; echo '[]' > t; chmod 600 b.json; mv t b.json`).OK()
		if got := m.ReadFile("a.json") + m.ReadFile("b.json"); got != "{}\n[]\n" {
			t.Errorf("afterwards they hold %q", got)
		}
	}, withPolicy(validated))
}
