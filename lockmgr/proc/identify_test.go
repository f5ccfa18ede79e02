package proc

import (
	"os/exec"
	"testing"
)

func TestProgramString(t *testing.T) {
	for want, p := range map[string]Program{
		"jq":           {Comm: "jq"},
		"/bin/jq":      {Comm: "jq", Exe: "/bin/jq"},
		"/bin/py /x.y": {Comm: "x", Exe: "/bin/py", Script: "/x.y"},
	} {
		if p.String() != want {
			t.Errorf("%+v is %q", p, p)
		}
	}
}

func TestIdentify(t *testing.T) {
	r := newReader(t)
	c := startChild(t, func(cmd *exec.Cmd) { cmd.Args = []string{"python3", "x.py"} })
	c.do("name", "told")
	self, err := r.root.Link("self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Identify(c.pid()); p.Comm != "told" || p.Exe != self || p.Script != "" {
		t.Errorf("%+v", p) // the test binary is no interpreter, whatever it calls itself
	}
	c.signal(9)
	c.cmd.Wait()
	c.done = true
	if p := r.Identify(c.pid()); p != (Program{}) {
		t.Errorf("of a dead process: %+v", p)
	}
}
