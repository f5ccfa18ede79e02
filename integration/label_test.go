package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A script that gives itself a label while it runs is known by it from then on, with
// everything below it.
func TestLabelOfARunningScript(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		sh := m.shell(t)
		sh.do(`echo one > before`, 0)
		sh.do(`$L label agent-7`, 0)
		sh.do(`echo two > f; sh -c 'sh -c "echo three > below"'; (setsid sh -c 'until [ -e go ]; do sleep 0.01; done; echo four > orphan; : > done' &); : > go; until [ -e done ]; do sleep 0.01; done`, 0)
		sh.do(`LATCHFS_ACTOR=inner sh -c 'echo five > own'`, 0)
		m.shell(t).do(`echo six > other`, 0)
		for path, want := range map[string]string{"before": "", "f": "agent-7", "below": "agent-7", "orphan": "agent-7", "own": "inner", "other": ""} {
			if ns, _ := os.Readlink("/proc/self/ns/pid"); path == "orphan" && ns != "pid:[4026531836]" {
				continue
			}
			if events := m.EventsOf("commit", path); len(events) != 1 || events[0].Actor != want {
				t.Errorf("%s was written by %+v, want %q", path, events, want)
			}
		}
		sh.do(`exec 3> held; $L status | grep -F ' as agent-7'; exec 3>&-`, 0)
		sh.do(`$L undo --actor agent-7 --since 1h --dry-run 2>&1 | grep -w below`, 0)
		sh.do(`$L label nightly`, 0)
		sh.do(`echo seven > f`, 0)
		if events := m.EventsOf("commit", "f"); len(events) != 2 || events[1].Actor != "nightly" {
			t.Errorf("f was written by %+v", events)
		}
		sh.do(`$L audit --actor nightly | grep -w f`, 0)
	})
}

// A label is short and can be shown, and belongs to a process of the caller's own, which
// has called latchfs.
func TestLabelIsRefused(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		sh, other := m.shell(t), m.shell(t)
		for _, name := range []string{strings.Repeat("x", 257), "", "a\nb", "a\x1b[2J"} {
			if o := m.Latchfs(t, "label", name); o.Code != 2 {
				t.Errorf("%.10q: %+v", name, o)
			}
		}
		sh.do(fmt.Sprintf(`$L label --for %d mine 2>&1`, other.PID()), 1)
		sh.do(`$L label --for 1 mine 2>&1`, map[bool]int{true: 1, false: 0}[m.UID != 0])
		sh.do(`$L label `+strings.Repeat("é", 128), 0)
		other.do(`echo x > f`, 0)
		if events := m.EventsOf("commit", "f"); m.UID != 0 && (len(events) != 1 || events[0].Actor != "") {
			t.Errorf("another's file: %+v", events)
		}
	})
}

// What other users do below a labelled process is not shown under its label.
func TestLabelDoesNotReachOtherUsers(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	m := mount(t)
	if err := os.Chmod(m.Data, 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := m.runAs(t, ordinaryUID, bench.binary, "label", "--mount", m.Dir, "--for", fmt.Sprint(os.Getpid()), "mine")
	if err == nil {
		t.Errorf("a user has labelled root's process: %s", out)
	}
	const script = `
import os, subprocess, sys
uid = int(sys.argv[3])
os.setresuid(uid, uid, 0)
subprocess.run([sys.argv[1], "label", "--for", str(os.getpid()), "mine"], check=True, preexec_fn=lambda: os.setresuid(uid, uid, uid))
open("user", "w").write("x")
os.setresuid(0, 0, 0)
open("root", "w").write("x")
`
	m.Python(t, script, bench.binary, filepath.Base(m.Dir), fmt.Sprint(ordinaryUID))
	for path, want := range map[string]string{"user": "mine", "root": ""} {
		if events := m.EventsOf("commit", path); len(events) != 1 || events[0].Actor != want {
			t.Errorf("%s was written by %+v, want %q", path, events, want)
		}
	}
}
