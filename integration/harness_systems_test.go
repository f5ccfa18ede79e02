package integration

import (
	"embed"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"latchfs/integration/internal/wire"
)

// The programs of five existing lock systems, as their users write them. At the point that
// the variable PAUSE names, each of them says "at POINT" and waits for a line, or the end,
// of its standard input.
//
//go:embed testdata/systems
var systemFiles embed.FS

// systemPrograms puts the programs where every user may run them, once.
var systemPrograms = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(bench.root, "systems")
	entries, err := systemFiles.ReadDir("testdata/systems")
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	for _, e := range entries {
		var text []byte
		if err == nil {
			text, err = systemFiles.ReadFile(path.Join("testdata/systems", e.Name()))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), text, 0o755)
		}
	}
	return dir, err
})

// A system is the program of one of them at work in a directory of a mount.
type system struct {
	m       *Mount
	dir     string // below the mount
	program []string
}

// system makes a directory for a part of a test, where a program works.
func (m *Mount) system(t testing.TB, dir, program string) *system {
	t.Helper()
	programs, err := systemPrograms()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range dir + "/" {
		if c == '/' && m.control.mkdirAll(dir[:i]) != nil {
			t.Fatalf("%s cannot be made", dir[:i])
		}
	}
	s := &system{m: m, dir: dir, program: []string{filepath.Join(programs, program)}}
	switch filepath.Ext(program) {
	case ".sh":
		s.program = append([]string{"bash"}, s.program...)
	case ".py":
		s.program = append([]string{bench.python}, s.program...)
	}
	return s
}

// mkdirAll makes a directory that may be there.
func (c *Client) mkdirAll(dir string) error {
	_, err := c.Do(wire.Request{Op: "mkdir", Path: c.m.Path(dir), Mode: 0o755})
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// settle waits until a program has ended or, on a mount, waits for a lock.
func (p *Proc) settle() {
	p.t.Helper()
	if p.m.Name == "plain" {
		p.Wait()
		return
	}
	eventually(p.t, "an end or a wait", func() bool { return p.Done() || p.waits() })
}

// waits tells whether a program waits for a lock, itself or a child of it.
func (p *Proc) waits() bool {
	queue, _ := p.m.queue()
	return slices.ContainsFunc(queue, func(w WaitingLock) bool {
		return w.PID == p.PID() || processGroup(w.PID) == p.PID()
	})
}

// start starts the program; variables of its environment come first.
func (s *system) start(t testing.TB, argv ...string) *Proc {
	t.Helper()
	cmd := []string{"-c", `cd "$1" && shift && exec env "$@"`, "bash", s.dir}
	for len(argv) > 0 && strings.Contains(argv[0], "=") {
		cmd, argv = append(cmd, argv[0]), argv[1:]
	}
	return s.m.launch(t, exec.Command("bash", append(append(cmd, s.program...), argv...)...))
}

// run runs the program to its end, without any input.
func (s *system) run(t testing.TB, argv ...string) Outcome {
	t.Helper()
	p := s.start(t, argv...)
	p.Close()
	return p.Wait()
}

// ok runs the program, which must succeed, and returns its output.
func (s *system) ok(t testing.TB, argv ...string) string {
	t.Helper()
	p := s.start(t, argv...)
	p.Close()
	return p.OK()
}

// pause starts the program and waits until it is at a point.
func (s *system) pause(t testing.TB, point string, argv ...string) *Proc {
	t.Helper()
	p := s.start(t, append([]string{"PAUSE=" + point}, argv...)...)
	p.AwaitLine("at " + point)
	return p
}

// resume lets a program that pauses go on to its end.
func (p *Proc) resume() Outcome {
	p.t.Helper()
	p.Close()
	return p.Wait()
}

// bash runs a script in the directory.
func (s *system) bash(t testing.TB, script string, argv ...string) Outcome {
	t.Helper()
	return s.m.Bash(t, `cd "$1" && shift && `+script, append([]string{s.dir}, argv...)...)
}

// path is a file of the directory.
func (s *system) path(name string) string { return path.Join(s.dir, name) }

// read reads a file of the directory.
func (s *system) read(name string) string { return s.m.ReadFile(s.path(name)) }

// plainDirectory is a directory without latchfs, which programs use like a mount.
func plainDirectory(t testing.TB) *Mount {
	t.Helper()
	m := &Mount{t: t, UID: os.Geteuid(), Name: "plain", options: mountOptions{name: "plain"}}
	if err := m.makeDirs(); err != nil {
		t.Fatal(err)
	}
	m.Dir = m.Data
	m.control = m.newControl()
	t.Cleanup(m.control.Kill)
	return m
}

// A harm is what a defect of a system has done: how many programs have reported success
// for a change that is not there, and how many had a lock while another one had it.
type harm struct{ lost, winners int }

// defect has a system's programs do the same on a plain directory and on a mount, and
// prints what harm that did. On the plain directory there must be some.
func defect(t *testing.T, what string, m *Mount, do func(*testing.T, *Mount) harm) {
	t.Helper()
	without, with := do(t, plainDirectory(t)), do(t, m)
	t.Logf("%s: plain directory %+v, mount %+v", what, without, with)
	if without == (harm{}) {
		t.Errorf("%s: no harm on a plain directory", what)
	}
	if with != (harm{}) {
		t.Errorf("%s: harm on the mount: %+v", what, with)
	}
}

// awaitLog waits for a line in the log of the daemon that has all of some words.
func awaitLog(t testing.TB, m *Mount, words ...string) {
	t.Helper()
	eventually(t, strings.Join(words, " ")+" in the log", func() bool {
		for line := range strings.Lines(m.log()) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return true
			}
		}
		return false
	})
}
