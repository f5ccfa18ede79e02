package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// appendLines, and its like, are services that write a line whenever they are told to.
const (
	appendLines = `
import sys
f = open(sys.argv[1], "a")
print("ready", flush=True)
for line in sys.stdin:
    f.write("line " + line)
    f.flush()
    print("done " + line, end="", flush=True)
`
	logLines = `
import logging, sys
logging.basicConfig(filename=sys.argv[1], level=logging.INFO, format="line %(message)s")
print("ready", flush=True)
for line in sys.stdin:
    logging.info(line.rstrip())
    print("done " + line, end="", flush=True)
`
	// The shell's own redirection: > of a live name, kept open.
	redirectLines = `
import os, subprocess, sys
subprocess.run(["bash", "-c", 'exec 3> "$1"; echo ready; while read -r line; do echo "line $line" >&3; echo "done $line"; done', "sh", sys.argv[1]])
`
)

// logrotate works as on a plain directory while a service keeps its log open: five
// rotations in a row, and no line is lost that is not lost there.
func TestLogrotate(t *testing.T) {
	inTestAll(t)
	alongside(t)
	requireTool(t, "logrotate")
	shapes := []struct {
		name, options string
		want          []string // what is there in the end, without the log itself
		keepsAll      bool
	}{
		{"create", "create", []string{".1", ".2", ".3", ".4", ".5"}, true},
		{"delaycompress", "create\ncompress\ndelaycompress", []string{".1", ".2.gz", ".3.gz", ".4.gz", ".5.gz"}, false},
		{"compress", "create\ncompress", []string{".1.gz", ".2.gz", ".3.gz", ".4.gz", ".5.gz"}, false},
		{"copytruncate", "copytruncate", []string{".1", ".2", ".3", ".4", ".5"}, true},
		{"olddir", "create\nolddir old", nil, true},
	}
	services := []struct{ name, script, log string }{
		{"append", appendLines, "app.log"},
		{"append to another name", appendLines, "app.out"},
		{"append records", appendLines, "service.txt"},
		{"logging", logLines, "app.log"},
		{"redirection", redirectLines, "app.log"},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, shape := range shapes {
			for _, s := range services {
				t.Run(shape.name+"/"+s.name, func(t *testing.T) {
					dir := strings.ReplaceAll(shape.name+" "+s.name, " ", "-")
					m.Mkdir(dir)
					m.Mkdir(dir + "/old")
					written := m.rotate(t, dir, s.script, s.log, shape.options)
					got := m.List(dir)
					got = slices.DeleteFunc(got, func(n string) bool { return n == "old" || n == s.log })
					var want []string
					for _, suffix := range shape.want {
						want = append(want, s.log+suffix)
					}
					slices.Sort(got)
					if !slices.Equal(got, want) {
						t.Errorf("there are %q, want %q", got, want)
					}
					if !shape.keepsAll || s.name == "redirection" && shape.name == "copytruncate" {
						return // a plain directory keeps not all either, or with holes
					}
					lines := strings.Fields(m.Bash(t, `cat "$1"/*.* "$1"/old/* 2>/dev/null | sed 's/^line //' | sort -n`, dir).Stdout)
					if len(lines) != written {
						t.Errorf("%d lines of %d are there: %v", len(lines), written, lines)
					}
				})
			}
		}
		m.noBypass(t)
	})
}

// rotate runs the service in dir with five rotations of its log, and returns how many
// lines it has written.
func (m *Mount) rotate(t *testing.T, dir, script, log, options string) int {
	t.Helper()
	conf := filepath.Join(m.Home(), strings.ReplaceAll(dir, "/", "-")+".conf")
	text := fmt.Sprintf("%q {\nrotate 9\nsize 1\n%s\n}\n", m.Path(dir+"/"+log), options)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(conf, m.UID, m.UID); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	service := m.LaunchPython(t, script, dir+"/"+log)
	service.AwaitLine("ready")
	n := 0
	write := func() {
		n++
		service.Send(fmt.Sprint(n))
		service.AwaitLine(fmt.Sprint("done ", n))
	}
	for range 5 {
		write()
		write()
		o := m.Run(t, "logrotate", "--force", "--state", conf+".state", conf)
		if o.Code != 0 || o.Stderr != "" {
			t.Errorf("logrotate: %d %s", o.Code, o.Stderr)
		}
		write()
	}
	service.Close()
	service.OK()
	return n
}
