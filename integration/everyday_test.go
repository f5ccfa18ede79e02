package integration

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The everyday scripts are what people run in a directory of theirs: version
// control, builds, copies, editors, log rotation. A script that is alone in its
// directory must do there what it does in a plain one, and nothing may be refused,
// whichever of its processes has read what another of them has changed.

//go:embed testdata/everyday/*.sh
var everydayFiles embed.FS

// everydayScript is one file of testdata/everyday. Comments at its top say how it
// is run:
//
//	# needs: git make     programs that may be missing
//	# root                only root runs it
//	# varies: REGEXP      paths whose bytes differ from run to run
//	# chance              its processes use the same file at once: for make stress
type everydayScript struct {
	name   string
	text   string
	needs  []string
	root   bool
	chance bool
	varies string
}

// everydayDriver runs the script $2 in the new directory $1 and lets the test look
// at what is there. Then it reads and removes everything, as the parent of whatever
// has changed it.
const everydayDriver = toolPrelude + `export OUT=$3 GOCACHE=$4
mkdir "$1" && cd "$1" || exit 99
bash -eu -o pipefail "$2" < /dev/null 2>&1
printf '\n== ended %d\n' $?
read -r
shopt -s nullglob dotglob
find . -type f -exec cat {} + > /dev/null
rm -rf -- *
printf '== removed %d\n' $?
ls -A; cd ..; rmdir "$1"
printf '== gone %d\n' $?
`

var everydayEnded = regexp.MustCompile(`\n== ended ([0-9]+)\n`)

// everydayResult is what a script left behind.
type everydayResult struct {
	Code    string
	Output  string
	Tree    []string
	Removal string
}

// TestEverydayScripts runs every script on a mount of root's and every third one on an
// ordinary user's; in the long version all of them on all mounts, 20 times.
func TestEverydayScripts(t *testing.T) {
	inTestAll(t)
	alongside(t)
	scripts := everydayScripts(t)
	if stress() {
		forEachMount(t, func(t *testing.T, m *Mount) { runEveryday(t, m, scripts, 20) })
		return
	}
	for n := range everydayShares {
		t.Run(fmt.Sprint("share", n), func(t *testing.T) {
			alongside(t)
			run := func(t *testing.T, m *Mount) { runEveryday(t, m, everydayShare(scripts, n), 1) }
			if n == 0 {
				rootAndUser(t, run)
			} else {
				run(t, mount(t))
			}
		})
	}
}

// TestEverydayScriptsOnABusyMachine runs the scripts while others use every
// processor.
func TestEverydayScriptsOnABusyMachine(t *testing.T) {
	if !stress() {
		t.Skip("only in the long version")
	}
	occupyProcessors(t)
	runEveryday(t, mount(t), everydayScripts(t), 20)
}

// occupyProcessors keeps every processor busy until the test ends.
func occupyProcessors(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			cmd.Wait()
		})
	}
}

// everydayShares is into how many shares the scripts are divided, each for a mount.
const everydayShares = 3

func everydayShare(scripts []everydayScript, n int) (some []everydayScript) {
	for i, s := range scripts {
		if i%everydayShares == n {
			some = append(some, s)
		}
	}
	return some
}

// everydayScripts reads the scripts whose programs are installed; make stress alone gets
// those of chance.
func everydayScripts(t *testing.T) []everydayScript {
	t.Helper()
	entries, err := everydayFiles.ReadDir("testdata/everyday")
	if err != nil {
		t.Fatal(err)
	}
	var scripts []everydayScript
	for _, e := range entries {
		text, err := everydayFiles.ReadFile(path.Join("testdata/everyday", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s := parseEveryday(strings.TrimSuffix(e.Name(), ".sh"), string(text))
		if missing := slices.DeleteFunc(s.needs, installed); len(missing) > 0 {
			leftOut(t, s.name, missing...)
			continue
		}
		if s.root && os.Geteuid() != 0 || s.chance && !stress() && !hiccups() {
			continue
		}
		scripts = append(scripts, s)
	}
	return scripts
}

func parseEveryday(name, text string) everydayScript {
	s := everydayScript{name: name, text: text}
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(comment, ": ")
		switch key {
		case "needs":
			s.needs = strings.Fields(value)
		case "root":
			s.root = true
		case "chance":
			s.chance = true
		case "varies":
			s.varies = value
		}
	}
	return s
}

// runEveryday runs the scripts, so many times each, and compares them with a plain
// directory.
func runEveryday(t *testing.T, m *Mount, scripts []everydayScript, times int) {
	t.Helper()
	twin := plainTwin(t, m)
	seen := 0 // events
	for _, s := range scripts {
		if s.root && m.UID != 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			want := s.perform(t, m, twin, twin)
			if want.Code != "0" {
				t.Fatalf("in a plain directory it ended with %s\n%s", want.Code, want.Output)
			}
			for range times {
				if d := cmp.Diff(want, s.perform(t, m, m.Dir, m.Data)); d != "" {
					t.Errorf("the mount differs from a plain directory (-plain +mount):\n%s", d)
				}
				if *plain {
					continue
				}
				events := m.Events()
				for _, e := range events[seen:] {
					if slices.Contains(alarms, e.Event) {
						t.Errorf("%s of %s by %s: %s %s", e.Event, e.Path, e.Program, e.Operation, e.Reason)
					}
				}
				if seen = len(events); t.Failed() {
					break
				}
			}
		})
	}
}

// perform runs the script in a new directory below root, whose files lie below
// data, as a family of its own.
func (s everydayScript) perform(t *testing.T, m *Mount, root, data string) everydayResult {
	t.Helper()
	out, err := os.MkdirTemp(m.Home(), "everyday-")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, s.name+".sh")
	if err := os.WriteFile(file, []byte(s.text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := giveTo(out, m.UID); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, s.name)
	p := m.LaunchUnrelated(t, "bash", "-c", everydayDriver, "bash", dir, file, out, goCache(t))
	var ended []int
	eventually(t, s.name+" ends", func() bool {
		if ended = everydayEnded.FindStringSubmatchIndex(p.Stdout()); ended == nil && p.Done() {
			t.Fatalf("the driver ended: %s%s", p.Stdout(), p.Stderr())
		}
		return ended != nil
	})
	said := p.Stdout()
	r := everydayResult{Code: said[ended[2]:ended[3]], Output: strings.NewReplacer(dir, "DIR", out, "OUT").Replace(said[:ended[0]])}
	if root != data {
		eventually(t, "every session has ended", func() bool { return m.Status().Held() == 0 })
		m.awaitSwept(t) // what is new has a marker beside it until it is on disk
	}
	r.Tree = s.tree(t, filepath.Join(data, s.name))
	if root != data && m.UID == os.Geteuid() {
		if d := cmp.Diff(r.Tree, s.tree(t, dir)); d != "" {
			t.Errorf("what the mount shows differs from what is underneath (-underneath +mount):\n%s", d)
		}
	}
	p.Send("remove")
	o := p.soon()
	r.Removal = strings.ReplaceAll(o.Stdout[len(said):]+o.Stderr, dir, "DIR")
	return r
}

// tree is what the script left, without times.
func (s everydayScript) tree(t *testing.T, dir string) []string {
	t.Helper()
	lines := treeOf(t, dir)
	if s.varies == "" {
		return lines
	}
	varies := regexp.MustCompile(fmt.Sprintf(`^"(%s)" `, s.varies))
	for i, line := range lines {
		if varies.MatchString(line) {
			lines[i] = varies.FindString(line) + "..."
		}
	}
	return slices.Compact(lines)
}

// goCache is where go keeps what it has built: what the tests themselves are built
// from, so that a script need not build the runtime again.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
