package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// PastVersion is a line of .locks/history.jsonl.
type PastVersion struct {
	Path      string    `json:"path"`
	Version   int       `json:"version"`
	Time      time.Time `json:"time"`
	Base      int       `json:"base"`
	Event     string    `json:"event"`
	Operation string    `json:"operation"`
	Actor     string    `json:"actor"`
	Program   string    `json:"program"`
	PID       int       `json:"pid"`
	UID       int       `json:"uid"`
	Session   string    `json:"session"`
	Token     uint64    `json:"token"`
	Bytes     int64     `json:"bytes"`
	Kept      bool      `json:"kept"`
	Current   bool      `json:"current"`
	From      string    `json:"from"`
	To        string    `json:"to"`
}

// Versions reads what .locks/history.jsonl says about a path.
func (m *Mount) Versions(path string) []PastVersion {
	m.t.Helper()
	var list []PastVersion
	for line := range strings.Lines(m.Locks("history.jsonl")) {
		var v PastVersion
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			m.t.Fatalf("%s: %v", line, err)
		}
		if v.Path == path {
			list = append(list, v)
		}
	}
	return list
}

// past describes the versions of a path: number, event, and the content of those
// that are kept.
func (m *Mount) past(path string) string {
	m.t.Helper()
	text := ""
	for _, v := range m.Versions(path) {
		text += fmt.Sprintf("%d %s", v.Version, v.Event)
		if v.Kept {
			text += fmt.Sprintf(" %q", m.Locks(fmt.Sprintf("history/%s/%d", path, v.Version)))
		}
		text += "\n"
	}
	return text
}

func (m *Mount) expectPast(path, want string) {
	m.t.Helper()
	if got := m.past(path); strings.TrimSpace(got) != strings.TrimSpace(want) {
		m.t.Errorf("the versions of %s are\n%swant\n%s", path, got, want)
	}
}

// mustBash runs a script, which must succeed.
func (m *Mount) mustBash(t testing.TB, script string) {
	t.Helper()
	if o := m.Bash(t, script); o.Code != 0 {
		t.Fatalf("%s: %d %v %s", script, o.Code, o.Signal, o.Stderr)
	}
}

// Every save keeps what it replaces, with who made it; so does the removal of a
// file, which so can be brought back. All survives a kill and a stop.
func TestHistoryOfSaves(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		for i := range 5 {
			if err := c.Save("f", fmt.Sprint("version ", i+1)); err != nil {
				t.Fatal(err)
			}
		}
		want := "1 commit\n2 commit\n3 commit \"version 3\"\n4 commit \"version 4\"\n5 commit"
		m.expectPast("f", want)
		for i, v := range m.Versions("f") {
			if v.Base != i || v.PID != c.PID || v.UID != m.UID || v.Program != "client" || v.Session == "" || v.Token == 0 ||
				v.Bytes != 9 || v.Current != (i == 4) || time.Since(v.Time) > time.Hour {
				t.Errorf("version %d is %+v", i+1, v)
			}
		}
		c.OK(wire.Request{Op: "unlink", Path: m.Path("f")})
		want = "1 commit\n2 commit\n3 commit\n4 commit \"version 4\"\n5 commit \"version 5\"\n6 delete"
		m.expectPast("f", want)
		eventually(t, "what is given up is off the disk", func() bool { return len(m.contents()) == 2 })
		m.Crash(t)
		m.Start(t)
		m.expectPast("f", want)
		m.Stop(t)
		m.Start(t)
		m.expectPast("f", want)
		m.WriteFile("f", m.Locks("history/f/5"))
		m.expectPast("f", want+"\n7 commit")
	}, withPolicy("[defaults]\nhistory = 2\n"))
}

// What tools do to save leaves the former version, whatever the way.
func TestHistoryOfTools(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "vim", "sed")
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "one\n")
		for _, step := range []struct{ script, kept, now string }{
			{`echo two > f`, "one\n", "two\n"},
			{`sed -i s/two/three/ f`, "two\n", "three\n"},
			{`echo four > t && mv t f`, "three\n", "four\n"},
			{`vim -Nu NONE -n -es -c 'set backupcopy=no writebackup' -c '%s/four/five/' -c wq f`, "four\n", "five\n"},
			{`cp f g && echo six > g && mv -f g f`, "five\n", "six\n"},
			{`rm f`, "six\n", ""},
		} {
			m.mustBash(t, step.script)
			var kept []string
			for _, v := range m.Versions("f") {
				if v.Kept {
					kept = append(kept, m.Locks(fmt.Sprintf("history/f/%d", v.Version)))
				}
			}
			if n := len(kept); n == 0 || kept[n-1] != step.kept {
				t.Errorf("%s: kept is %q\n%s", step.script, kept, m.past("f"))
			}
			if step.now != "" && m.ReadFile("f") != step.now {
				t.Errorf("%s: the file is %q", step.script, m.ReadFile("f"))
			}
		}
	})
}

// A version's links in the history show nowhere: what was replaced or removed has
// none, what is there has those that its users gave it.
func TestHistoryIsNoLink(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c, other := m.Client(t), m.Client(t)
		m.WriteFile("f", "one")
		m.WriteFile("t", "two")
		nlink := func(what string, fd int, want uint64) {
			t.Helper()
			if got := other.Fstat(fd).Nlink; got != want {
				t.Errorf("%s has %d links, want %d", what, got, want)
			}
		}
		first := other.Open("f", unix.O_RDONLY)
		nlink("the present version", first, 1)
		c.OK(c.path2("rename", "t", "f"))
		nlink("a version that was renamed over", first, 0)
		second := other.Open("f", unix.O_RDONLY)
		if err := c.Save("f", "three"); err != nil {
			t.Fatal(err)
		}
		nlink("a version that was saved over", second, 0)
		third := other.Open("f", unix.O_RDONLY)
		c.OK(wire.Request{Op: "unlink", Path: m.Path("f")})
		nlink("a removed file", third, 0)
		m.expectPast("f", "1 commit \"one\"\n2 commit \"two\"\n3 commit \"three\"\n4 delete")
		for fd, want := range map[int]string{first: "one", second: "two", third: "three"} {
			if got := other.ReadAt(fd, 10, 0); got != want {
				t.Errorf("%q became %q", want, got)
			}
			other.MustClose(fd)
		}
		if err := c.Save("f", "four"); err != nil {
			t.Fatal(err)
		}
		if st, err := c.Stat("f"); err != nil || st.Nlink != 1 {
			t.Errorf("the new file has %d links, %v", st.Nlink, err)
		}
	})
}

// A file with several names is written in place: what it held is kept as a copy,
// and it keeps its names.
func TestHistoryInPlace(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "one")
		m.control.OK(m.control.path2("link", "f", "g"))
		m.WriteFile("g", "two")
		m.WriteFile("g", "three")
		m.expectPast("g", "1 found \"one\"\n2 commit \"two\"\n3 commit")
		for _, name := range []string{"f", "g"} {
			if st, err := m.control.Stat(name); err != nil || st.Nlink != 2 || m.ReadFile(name) != "three" {
				t.Errorf("%s has %d links, %v, and holds %q", name, st.Nlink, err, m.ReadFile(name))
			}
		}
		m.mustBash(t, "rm f g")
		if st := m.Locks("history/g/3"); st != "three" {
			t.Errorf("the last content is %q", st)
		}
	})
}

// Who has an earlier version open and gets to write it writes his own: the
// history's does not change.
func TestHistoryIsNotWritten(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		m.WriteFile("f", "one")
		fd := c.Open("f", unix.O_RDONLY)
		m.control.OK(wire.Request{Op: "unlink", Path: m.Path("f")})
		w := c.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY)
		c.Write(w, "TWO")
		c.MustClose(w)
		if got := c.ReadAt(fd, 10, 0); got != "TWO" {
			t.Errorf("the open file has %q", got)
		}
		if got := c.Fstat(fd).Nlink; got != 0 {
			t.Errorf("it has %d links", got)
		}
		m.expectPast("f", "1 commit \"one\"\n2 delete")
	})
}

// Others know of a version what its own mode lets them read, as long as the
// directories above it do; of what is in a directory that is gone its owner alone.
func TestHistoryOfPrivateFiles(t *testing.T) {
	needsLatchfs(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be several users")
	}
	m := mount(t)
	alice, bob := m.ClientAs(t, ordinaryUID), m.ClientAs(t, otherUID)
	m.control.OK(wire.Request{Op: "mkdir", Path: m.Path("d"), Mode: 0o777})
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("d"), Mode: 0o777})
	save := func(name, content string, mode uint32) {
		t.Helper()
		fd := alice.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
		alice.Write(fd, content)
		alice.MustClose(fd)
		alice.OK(wire.Request{Op: "chmod", Path: m.Path(name), Mode: mode})
	}
	for _, name := range []string{"d/open", "d/private"} {
		mode := uint32(0o644)
		if name == "d/private" {
			mode = 0o600
		}
		save(name, "one", mode)
		save(name, "two", mode)
	}
	may := func(c *Client, name string) bool {
		t.Helper()
		_, err := c.Do(wire.Request{Op: "readall", Path: m.Path(".locks/history/" + name + "/1")})
		if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s: %v", name, err)
		}
		lines := c.ReadFile(".locks/history.jsonl")
		names := strings.Contains(lines, `"`+name+`","version":1,`)
		if names != (err == nil) {
			t.Errorf("%s: listed %v, read %v", name, names, err)
		}
		return err == nil
	}
	expect := func(what string, c *Client, name string, want bool) {
		t.Helper()
		if got := may(c, name); got != want {
			t.Errorf("%s: may see %s: %v, want %v", what, name, got, want)
		}
	}
	expect("the owner", alice, "d/private", true)
	expect("another", bob, "d/private", false)
	expect("another", bob, "d/open", true)
	expect("root", m.control, "d/private", true)
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("d"), Mode: 0o700})
	expect("the owner, below a closed directory", alice, "d/open", false)
	expect("another, below a closed directory", bob, "d/open", false)
	expect("root, below a closed directory", m.control, "d/open", true)
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("d"), Mode: 0o777})
	m.mustBash(t, "rm -r d")
	expect("the owner, of a directory that is gone", alice, "d/open", true)
	expect("another, of a directory that is gone", bob, "d/open", false)
	expect("root, of a directory that is gone", m.control, "d/private", true)
}

// Without history nothing is kept and nothing recorded.
func TestNoHistory(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy("[defaults]\nhistory = 0\n"))
	for i := range 3 {
		m.WriteFile("f", fmt.Sprint(i))
	}
	m.mustBash(t, "echo x > t; mv t f; rm f")
	if text := m.Locks("history.jsonl"); text != "" {
		t.Errorf("recorded is %s", text)
	}
	if kept := m.contents(); len(kept) != 0 {
		t.Errorf("kept is %q", kept)
	}
}

// contents lists what lies in the history's directory.
func (m *Mount) contents() []string {
	m.t.Helper()
	kept, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/history/??/*"))
	if err != nil {
		m.t.Fatal(err)
	}
	return kept
}

// Live files, and records that are appended, make no versions.
func TestNoVersions(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.mustBash(t, `echo a > x.db; echo b > x.db; rm x.db
			for i in 1 2 3; do echo $i >> f; done
			echo new > f`)
		m.expectPast("x.db", "")
		m.expectPast("f", "1 commit \"1\\n2\\n3\\n\"\n2 commit")
	})
}

// What is changed around the mount is found when the file is next opened, and
// becomes a version; what the mount itself changes is not.
func TestBypassIsFound(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "ours")
		m.mustBash(t, `touch -d yesterday f; chmod 600 f; echo a >> g; exec 3>> g; echo b >&3; cat g; echo c >&3; cat g
			echo x > h; mv h i; ln i j; echo y > j; rm j; cat i f; cp -p f k; touch k`)
		if err := os.WriteFile(filepath.Join(m.Data, "f"), []byte("a stranger's"), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the bypass is found", func() bool {
			m.ReadFile("f")
			return len(m.Versions("f")) == 2
		})
		m.expectPast("f", "1 commit\n2 found")
		m.AwaitEvent("bypass", "f")
		m.WriteFile("f", "ours again")
		m.expectPast("f", "1 commit\n2 found \"a stranger's\"\n3 commit")
		m.mustBash(t, "cat f g i k")
		for _, e := range m.Events() {
			if e.Event == "bypass" && e.Path != "f" {
				t.Errorf("%s: %s", e.Path, e.Reason)
			}
		}
		if n := len(m.EventsOf("bypass", "f")); n != 1 {
			t.Errorf("%d events of one bypass", n)
		}
	})
}
