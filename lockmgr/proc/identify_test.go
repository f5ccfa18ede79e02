package proc

import (
	"os/exec"
	"strings"
	"testing"
)

func TestScriptOf(t *testing.T) {
	cwd := func() string { return "/work" }
	for _, tt := range []struct{ exe, args, want string }{
		{"jq", "jq|.|f", ""},
		{"python3.13", "python3|edit.py|f", "/work/edit.py"},
		{"python3.13", "python3|-u|-W|error|/srv/./edit.py|x", "/srv/edit.py"},
		{"python3", "python3|-Wdefault|-X|dev|edit.py", "/work/edit.py"},
		{"python3", "python3|-c|print(1)|x", codeName("print(1)")},
		{"python3", "python3|-Ic|print(1)", codeName("print(1)")},
		{"python3", "python3|-cprint(1)", codeName("print(1)")},
		{"python3", "python3|-m|json.tool|f", "-m json.tool"},
		{"python3", "python3|-", "-"},
		{"python3", "python3", "-"},
		{"pypy3", "pypy3|a.py", "/work/a.py"},
		{"bash", "bash|-e|/opt/run.sh|-c", "/opt/run.sh"},
		{"bash", "-bash", "-"},
		{"bash", "bash|-lc|jq . f|name", codeName("jq . f")},
		{"bash", "bash|-ce|jq . f", codeName("jq . f")},
		{"bash", "bash|-o|pipefail|--rcfile|/x|run.sh", "/work/run.sh"},
		{"dash", "sh|--|-odd.sh", "/work/-odd.sh"},
		{"perl", "perl|-i|-pe|s/a/b/|f", codeName("s/a/b/")},
		{"node", "node|--require|x|--no-warnings|app.js", "/work/app.js"},
		{"node", "node|--eval|1+1", codeName("1+1")},
		{"node", "node|--eval=1+1", codeName("1+1")},
		{"node22", "node22|-r|x|app.js", "/work/app.js"},
		{"busybox", "vi|f", "vi"},
		{"busybox", "/bin/sed|-i", "sed"},
		{"python3", "", ""},
	} {
		var args []string
		if tt.args != "" {
			args = strings.Split(tt.args, "|")
		}
		if got := scriptOf(tt.exe, args, cwd); got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.exe, args, got, tt.want)
		}
	}
	if got := scriptOf("python3", []string{"python3", "a.py"}, func() string { return "" }); got != "a.py" {
		t.Errorf("with an unknown directory: %q", got)
	}
}

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
