package script

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
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
		if got := Of(tt.exe, args, cwd); got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.exe, args, got, tt.want)
		}
	}
	if got := Of("python3", []string{"python3", "a.py"}, func() string { return "" }); got != "a.py" {
		t.Errorf("with an unknown directory: %q", got)
	}
}

func FuzzOf(f *testing.F) {
	f.Add("python3", "python3|-Wx|-c|1")
	f.Add("sh", "sh|-o|-")
	f.Add("node", "node|--eval=|--")
	f.Fuzz(func(t *testing.T, exe, args string) {
		list := strings.Split(args, "|")
		got := Of(exe, list, func() string { return "/work" })
		if again := Of(exe, append([]string{"other"}, list[1:]...), func() string { return "/work" }); exe != "busybox" && again != got {
			t.Errorf("by another name of its own it runs %q, not %q", again, got)
		}
		if interpreterOf(exe) == nil && exe != "busybox" && got != "" {
			t.Errorf("%q runs %q", exe, got)
		}
	})
}
