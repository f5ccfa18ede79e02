package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Who counts as having read a file: the process itself, or else its nearest
// ancestor that has been told so by one of its descendants (DESIGN 6). The shapes
// are all the ways in which people put reading and writing into different
// processes.

// shape is a program that reads f, pauses, and replaces it.
type shape struct {
	name  string
	needs []string
	root  bool   // only root can do it
	setup string // fills the directory, outside latchfs, beside f
	run   string // bash script; runs "$PAUSE" between reading and replacing

	// quiet says that the tool does not name the errno; its exit status tells.
	quiet bool
}

const (
	unread = `{"n":1}` + "\n"   // f as every shape finds it
	theirs = `{"n":100}` + "\n" // f as the other family commits it
)

// TestRelatives runs every shape twice: once while another family commits in the
// pause, when it must be refused and report so, and once undisturbed.
func TestRelatives(t *testing.T) {
	inTestAll(t)
	alongside(t)
	shapes := slices.Concat(shellShapes, toolShapes, programShapes, readerShapes)
	shapes = slices.DeleteFunc(shapes, func(s shape) bool {
		missing := slices.DeleteFunc(slices.Clone(s.needs), installed)
		if len(missing) > 0 {
			leftOut(t, s.name, missing...)
		}
		return len(missing) > 0
	})
	seed := func(data string) error { return seedShapes(data, shapes) }
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		other := m.Family(t)
		for _, s := range shapes {
			if s.root && m.UID != 0 {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				s.disturbed(t, m, other)
				s.undisturbed(t, m, other)
			})
		}
	}, withSeed(seed))
}

// seedShapes makes two directories for each shape.
func seedShapes(dir string, shapes []shape) error {
	var cases []toolCase
	for _, s := range shapes {
		setup := `echo '{"n":1}' > f` + "\n" + s.setup
		cases = append(cases, toolCase{name: s.name, setup: setup}, toolCase{name: s.name + "-alone", setup: setup})
	}
	return setUpTools(dir, cases)
}

// launch starts the shape in a directory and waits for its pause.
func (s shape) launch(t *testing.T, m *Mount, dir string) (*Proc, *Pause) {
	t.Helper()
	pause := m.newPause(t)
	out, err := os.MkdirTemp(m.Home(), "shape-")
	if err != nil {
		t.Fatal(err)
	}
	if err := giveTo(out, m.UID); err != nil {
		t.Fatal(err)
	}
	script := toolPrelude + "export PAUSE=$2 OUT=$3; cd \"$1\" || exit 99\n" + s.run
	p := m.LaunchUnrelated(t, "bash", "-c", script, "bash", m.Path(dir), pause.Command, out)
	pause.Await(p)
	return p, pause
}

// disturbed lets another family commit between reading and replacing.
func (s shape) disturbed(t *testing.T, m *Mount, other *Family) {
	t.Helper()
	p, pause := s.launch(t, m, s.name)
	other.OK(fmt.Sprintf("echo '{\"n\":100}' > %s/f", s.name))
	pause.Go()
	o := p.soon()
	if o.Code == 0 || !s.quiet && !saysBusy(o.Stdout+o.Stderr) {
		t.Errorf("disturbed: ended with %d, not with EBUSY\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
	name := filepath.Join(s.name, "f")
	if out, _ := other.Try("cat " + name); out != theirs {
		t.Errorf("disturbed: the other's version is lost: f holds %q", out)
	}
	if *plain {
		return
	}
	if len(m.conflictsIn(s.name)) == 0 {
		t.Error("disturbed: no event conflict")
	}
}

// undisturbed must not be refused.
func (s shape) undisturbed(t *testing.T, m *Mount, other *Family) {
	t.Helper()
	dir := s.name + "-alone"
	p, pause := s.launch(t, m, dir)
	pause.Go()
	if o := p.soon(); o.Code != 0 || saysBusy(o.Stdout+o.Stderr) {
		t.Errorf("alone: ended with %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
	name := filepath.Join(dir, "f")
	if out, _ := other.Try("cat " + name); out == unread {
		t.Error("alone: f was not replaced")
	}
	if *plain {
		return
	}
	for _, e := range m.conflictsIn(dir) {
		t.Errorf("alone: %s of %s by %s: %s", e.Operation, e.Path, e.Program, e.Reason)
	}
}

// conflictsIn lists the events conflict about files of a directory, by whatever
// name of theirs.
func (m *Mount) conflictsIn(dir string) []Event {
	m.t.Helper()
	return slices.DeleteFunc(m.Events(), func(e Event) bool { return e.Event != "conflict" || filepath.Dir(e.Path) != dir })
}
