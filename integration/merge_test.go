package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Under the policy "merge" two changes of one file are both kept where they can be
// joined, and the later one is refused where they cannot.

const mergePolicy = "[defaults]\nlost-update = \"merge\"\n"

// mergers is how many processes change one file.
const mergers = 16

// editKey has read the file once and saves it three times, each time with one more of
// its own keys: the second save is based on what it has itself written.
const editKey = `
import json, sys
me = sys.argv[1]
with open("f.json") as f: d = json.load(f)
for step in range(3):
    d["keys"]["%s-%d" % (me, step)] = [me, step]
    d["count"][me] += 1
    print("read", step, flush=True)
    sys.stdin.readline()
    with open("f.json", "w") as f: json.dump(d, f, indent=2)
`

// Everybody's keys are there in the end, in any way of saving.
func TestMergeOfKeys(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		count := map[string]int{}
		for i := range mergers {
			count[fmt.Sprint("p", i)] = 0
		}
		start, _ := json.MarshalIndent(map[string]any{"keys": map[string]any{}, "count": count}, "", "  ")
		m.WriteFile("f.json", string(start))
		var all []*Proc
		for i := range mergers {
			all = append(all, m.LaunchPython(t, editKey, fmt.Sprint("p", i)))
		}
		inStep(t, 3, all)
		var got struct {
			Keys  map[string][]any
			Count map[string]int
		}
		m.decode(m.ReadFile("f.json"), &got)
		for who, n := range got.Count {
			if n != 3 {
				t.Errorf("%s has counted to %d", who, n)
			}
		}
		if len(got.Keys) != 3*mergers || len(got.Count) != mergers {
			t.Errorf("%d keys, %d counts", len(got.Keys), len(got.Count))
		}
		// The first to save in each step has nothing to merge with.
		if n := len(m.EventsOf("merge", "f.json")); n < 3*mergers-1-3 || n >= 3*mergers {
			t.Errorf("%d merges", n)
		}
		m.nothingRefused(t, "f.json")
	}, withPolicy(mergePolicy))
}

func (m *Mount) nothingRefused(t *testing.T, name string) {
	t.Helper()
	for _, kind := range []string{"conflict", "rollback", "refusal"} {
		for _, e := range m.EventsOf(kind, name) {
			t.Errorf("%s: %s", kind, e.Reason)
		}
	}
}

func TestMergeAtRename(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	requireTool(t, "jq")
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f.json", "{\n  \"z\": 0\n}\n")
		var all []*Proc
		for i := range mergers {
			all = append(all, m.LaunchBash(t, `set -e
for step in 0 1; do
    jq --arg k "p$1-$step" '.[$k] = 1' f.json > "t$1"
    chmod 640 "t$1"
    echo read $step
    read line
    mv "t$1" f.json
done`, fmt.Sprint(i)))
		}
		inStep(t, 2, all)
		var got map[string]int
		m.decode(m.ReadFile("f.json"), &got)
		if len(got) != 2*mergers+1 {
			t.Errorf("%d keys: %v", len(got), got)
		}
		if o := m.Bash(t, `stat -c %a f.json; ls | wc -l`); o.Stdout != "640\n1\n" {
			t.Errorf("mode and number of files: %q", o.Stdout)
		}
		// What everybody sees is what is there.
		on, err := os.ReadFile(filepath.Join(m.Data, "f.json"))
		if err != nil || string(on) != m.ReadFile("f.json") || string(on) != m.Bash(t, "cat f.json").Stdout {
			t.Errorf("%v: underneath there is %q", err, on)
		}
		if len(m.EventsOf("merge", "f.json")) < mergers-1 {
			t.Errorf("%d merges", len(m.EventsOf("merge", "f.json")))
		}
		m.nothingRefused(t, "f.json")
	}, withPolicy(mergePolicy))
}

// Each has its own line of a list, and all lines are neighbours.
func TestMergeOfLines(t *testing.T) {
	needsLatchfs(t)
	var list, done strings.Builder
	for i := range mergers {
		fmt.Fprintf(&list, "- item %d: open\n", i)
		fmt.Fprintf(&done, "- item %d: done\n", i)
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range map[string]string{
			"truncated.md": `text=$(sed "s/item $2: open/item $2: done/" "$1"); echo read 0; read line; printf '%s\n' "$text" > "$1"`,
			"renamed.md":   `sed "s/item $2: open/item $2: done/" "$1" > "$1.$2"; echo read 0; read line; mv "$1.$2" "$1"`,
		} {
			m.WriteFile(name, list.String())
			var all []*Proc
			for i := range mergers {
				all = append(all, m.LaunchBash(t, "set -e\n"+script, name, fmt.Sprint(i)))
			}
			inStep(t, 1, all)
			if got := m.ReadFile(name); got != done.String() {
				t.Errorf("%s holds\n%s", name, got)
			}
			m.nothingRefused(t, name)
		}
	}, withPolicy(mergePolicy))
}

// Records that were appended meanwhile stay behind what is rewritten.
func TestMergeWithAppended(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f.jsonl", "{\"n\": 1}\n{\"n\": 2}\n")
		p := m.LaunchBash(t, `text=$(sed 's/"n": 1/"n": 1, "done": true/' f.jsonl); echo read 0; read line; printf '%s\n{"n": 5}\n' "$text" > f.jsonl`)
		p.AwaitLine("read 0")
		for _, n := range []string{"3", "4"} {
			m.Bash(t, `echo "{\"n\": $1}" >> f.jsonl`, n)
		}
		p.Send("go")
		p.OK()
		if got, want := m.ReadFile("f.jsonl"), "{\"n\": 1, \"done\": true}\n{\"n\": 2}\n{\"n\": 3}\n{\"n\": 4}\n{\"n\": 5}\n"; got != want {
			t.Errorf("the file holds %q", got)
		}
		m.nothingRefused(t, "f.jsonl")
	}, withPolicy(mergePolicy))
}

// setKey reads, waits, and sets one key.
const setKey = `
import json, sys
with open("f.json") as f: d = json.load(f)
print("read 0", flush=True)
sys.stdin.readline()
d[sys.argv[1]] = sys.argv[2]
with open("f.json", "w") as f: json.dump(d, f)
`

// stale starts a program that has read and waits, and then lets somebody else save.
func (m *Mount) stale(t *testing.T, theirs string, p *Proc) {
	t.Helper()
	p.AwaitLine("read 0")
	m.Python(t, `import sys; d = open(sys.argv[1]).read(); open(sys.argv[1], "w").write(sys.argv[2])`, "f.json", theirs)
	p.Send("go")
}

func TestMergeConflict(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const base, theirs = `{"a": 1, "b": 2}`, `{"a": "theirs", "b": 2}`
		m.WriteFile("f.json", base)
		p := m.LaunchBash(t, bench.python+` -c '`+setKey+`' a mine || { cat .locks/why; exit 3; }`)
		m.stale(t, theirs, p)
		o := p.Wait()
		if o.Code != 3 || !strings.Contains(o.Stderr, "Device or resource busy") {
			t.Errorf("ended with %d: %s", o.Code, o.Stderr)
		}
		for _, want := range []string{"The two changes cannot be merged: both sides have changed this", "where:    the value at a", "latchfs rejected diff"} {
			if !strings.Contains(o.Stdout, want) {
				t.Errorf("why does not say %q:\n%s", want, o.Stdout)
			}
		}
		if got := m.ReadFile("f.json"); got != theirs {
			t.Errorf("the file holds %q", got)
		}
		id := m.entry(t, "f.json")
		if got := m.latchfs(t, 0, "rejected", "show", id); got != `{"a": "mine", "b": 2}` {
			t.Errorf("kept is %q", got)
		}
		if got := m.latchfs(t, 1, "rejected", "diff", id); !strings.Contains(got, "\n-"+theirs) || !strings.Contains(got, "\n+{\"a\": \"mine\"") {
			t.Errorf("the difference is %q", got)
		}
		if got := m.latchfs(t, 1, "rejected", "diff", "--base", id); !strings.Contains(got, "\n-"+base) || !strings.Contains(got, "\n+{\"a\": \"mine\"") {
			t.Errorf("the difference from the base is %q", got)
		}
		if n := len(m.EventsOf("conflict", "f.json")); n != 1 || len(m.EventsOf("merge", "f.json")) != 0 {
			t.Errorf("%d conflicts", n)
		}
	}, withPolicy(mergePolicy))
}

// A temporary file that cannot be merged stays as it is.
func TestMergeConflictAtRename(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "jq")
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f.json", `{"a": 1}`)
		p := m.LaunchBash(t, `jq -c '.a = "mine"' f.json > t; echo read 0; read line; mv t f.json || { cat .locks/why; exit 3; }`)
		m.stale(t, `{"a": "theirs"}`, p)
		if o := p.Wait(); o.Code != 3 || !strings.Contains(o.Stdout, "what was written is still in t") || !strings.Contains(o.Stdout, "the value at a") {
			t.Errorf("ended with %d: %s%s", o.Code, o.Stdout, o.Stderr)
		}
		if f, tmp := m.ReadFile("f.json"), m.ReadFile("t"); f != `{"a": "theirs"}` || tmp != `{"a":"mine"}`+"\n" {
			t.Errorf("the file holds %q, and t %q", f, tmp)
		}
	}, withPolicy(mergePolicy))
}

// Where nothing is merged, the policy is that of "refuse".
func TestMergeRefused(t *testing.T) {
	needsLatchfs(t)
	for name, tt := range map[string]struct{ setup, change string }{
		"hard link":   {`ln f.json g`, `echo '{"b": 1}' > f.json`},
		"rename away": {``, `mv f.json g`},
		"transaction": {``, `"$1" guard --txn f.json -- sh -c "echo {} > f.json"`},
		"command":     {``, `cp f.json t.checked && echo '{"b": 1}' > t && mv t checked.json`},
	} {
		t.Run(name, func(t *testing.T) {
			m := mount(t, withPolicy(mergePolicy+"[[rule]]\nglob = \"checked.json\"\ncommand = [\"/bin/true\"]\n"))
			m.WriteFile("f.json", `{"a": 1}`)
			m.WriteFile("checked.json", `{"a": 1}`)
			if tt.setup != "" {
				m.Bash(t, tt.setup)
			}
			p := m.LaunchBash(t, `cat f.json checked.json > /dev/null; echo read 0; read line; `+tt.change, bench.binary)
			p.AwaitLine("read 0")
			for _, f := range []string{"f.json", "checked.json"} {
				m.Python(t, `import sys; d = open(sys.argv[1]).read(); open(sys.argv[1], "w").write('{"theirs": 1}')`, f)
			}
			p.Send("go")
			if o := p.Wait(); o.Code == 0 {
				t.Errorf("it succeeded: %s", o.Stdout)
			}
			for _, f := range []string{"f.json", "checked.json"} {
				if got := m.ReadFile(f); got != `{"theirs": 1}` {
					t.Errorf("%s holds %q", f, got)
				}
			}
		})
	}
}

// What was written is kept, and not what was merged of it, where the result is not
// accepted.
func TestMergeIsJudged(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f.json", `{"a": 1}`)
		p := m.LaunchPython(t, setKey, "b", strings.Repeat("m", 60))
		m.stale(t, `{"a": 1, "c": "`+strings.Repeat("t", 60)+`"}`, p)
		if o := p.Wait(); o.Code == 0 || !strings.Contains(o.Stderr, "Bad message") {
			t.Errorf("ended with %d: %s", o.Code, o.Stderr)
		}
		id := m.entry(t, "f.json")
		if got := m.latchfs(t, 0, "rejected", "show", id); strings.Contains(got, "ttt") || !strings.Contains(got, "mmm") {
			t.Errorf("kept is %q", got)
		}
		if got := m.ReadFile("f.json"); strings.Contains(got, "mmm") {
			t.Errorf("the file holds %q", got)
		}
	}, withPolicy(mergePolicy+"max-size = \"100B\"\n"))
}

// A change of a version that is no longer there is refused: after a restart the
// history may still have it, and without history nothing has.
func TestMergeAfterRestart(t *testing.T) {
	needsLatchfs(t)
	for history, want := range map[string]int{"10": 0, "0": 1} {
		t.Run("history "+history, func(t *testing.T) {
			m := mount(t, overItself(), withPolicy(mergePolicy+"history = "+history+"\n"))
			m.WriteFile("f.json", `{"a": 1}`)
			script := strings.ReplaceAll(setKey, `"f.json"`, `sys.argv[3]+"/f.json"`)
			p := m.LaunchBash(t, `cd /; `+bench.python+` -c '`+script+`' b mine "$1"`, m.Dir)
			p.AwaitLine("read 0")
			m.Python(t, `d = open("f.json").read(); open("f.json", "w").write('{"a": 2}')`)
			m.Stop(t)
			m.Start(t)
			p.Send("go")
			o := p.Wait()
			if o.Code != want {
				t.Errorf("ended with %d: %s", o.Code, o.Stderr)
			}
			merged := strings.Contains(m.ReadFile("f.json"), "mine")
			if merged != (want == 0) || !strings.Contains(m.ReadFile("f.json"), `"a": 2`) {
				t.Errorf("the file holds %q", m.ReadFile("f.json"))
			}
		})
	}
}
