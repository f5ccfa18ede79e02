package integration

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const readmeFile = "../README.md"

// README is for somebody who has never heard of latchfs, and says the rest elsewhere.
func TestReadmeIsShort(t *testing.T) {
	inTest(t)
	if n := strings.Count(readText(t, readmeFile), "\n"); n > 200 {
		t.Errorf("README.md has %d lines, more than 200: move something to docs/", n)
	}
}

var goLine = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)

// README asks for the Go release that go.mod asks for.
func TestReadmeNamesGo(t *testing.T) {
	inTest(t)
	version := goLine.FindStringSubmatch(readText(t, "../go.mod"))
	if version == nil || !strings.Contains(readText(t, readmeFile), "Go "+version[1]+" or later") {
		t.Errorf("README.md does not ask for the Go of go.mod, %v", version)
	}
}

// What README shows at a terminal is what somebody sees who types it: every command
// of its console blocks, in one interactive shell in a fresh mount. Times, process ids
// and the widths of columns may differ.
func TestReadmeSession(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	if os.Geteuid() != 0 {
		t.Skip("README shows a mount by root")
	}
	m := mount(t, overItself())
	term := newTerminal(t, m)
	steps := consoleSteps(readText(t, readmeFile))
	if len(steps) < 10 {
		t.Fatalf("README.md has %d commands in its console blocks", len(steps))
	}
	for i, s := range steps {
		shown := term.typed(strings.ReplaceAll(s.command, "/srv/data", m.Dir))
		if i == len(steps)-1 && s.shown == "" {
			break // the last command only waits for the holder before it
		}
		if diff := cmp.Diff(alike(s.shown), alike(strings.ReplaceAll(shown, m.Dir, "/srv/data"))); diff != "" {
			t.Errorf("%s\nREADME.md (-) differs from the terminal (+):\n%s", s.command, diff)
		}
		if strings.HasSuffix(s.command, "&\n") {
			eventually(t, "the writer in the background has the lock", func() bool { return strings.Contains(m.Locks("status"), "bash[") })
		}
	}
}

// consoleStep is one command of a console block, with its further lines, and what it shows.
type consoleStep struct{ command, shown string }

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

func consoleSteps(text string) []consoleStep {
	var steps []consoleStep
	for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, consoleStep{command: command})
			} else if more, ok := strings.CutPrefix(line, "> "); ok {
				steps[len(steps)-1].command += more
			} else {
				steps[len(steps)-1].shown += line
			}
		}
	}
	return steps
}

var unlike = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DATE"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\[\d{2,}\]`), "[PID]"},
	{regexp.MustCompile(`(?m)^(\[\d\]) \d+$`), "$1 PID"},
	{regexp.MustCompile(`process \d+`), "process PID"},
	{regexp.MustCompile(`<?\b\d+(ms|s|m)\b`), "SPAN"},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

// alike is a text without what differs from one run to the next.
func alike(text string) []string {
	for _, u := range unlike {
		text = u.what.ReplaceAllString(text, u.by)
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

// terminal is an interactive bash on a terminal of its own.
type terminal struct {
	t    testing.TB
	tty  *os.File
	mu   sync.Mutex
	seen bytes.Buffer
}

const firstPrompt, secondPrompt = "<first>", "<second>"

// newTerminal starts the shell outside of the mount, with latchfs in its PATH.
func newTerminal(t testing.TB, m *Mount) *terminal {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(bench.binary, filepath.Join(bin, "latchfs")); err != nil {
		t.Fatal(err)
	}
	tty, name := openTerminal(t)
	slave, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "PS1="+firstPrompt, "PS2="+secondPrompt, "LC_ALL=C", "TERM=dumb", "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Dir = m.Home()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, tty: tty}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			term.mu.Lock()
			term.seen.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return // EIO: the shell and its jobs have closed the terminal
			}
		}
	}()
	t.Cleanup(func() {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
		tty.Close()
		<-gone
	})
	term.shown(firstPrompt)
	return term
}

// openTerminal makes a terminal that does not echo.
func openTerminal(t testing.TB) (master *os.File, name string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	var mode *unix.Termios
	if err == nil {
		mode, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	}
	if err == nil {
		mode.Lflag &^= unix.ECHO
		mode.Oflag &^= unix.ONLCR
		err = unix.IoctlSetTermios(fd, unix.TCSETS, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, fmt.Sprintf("/dev/pts/%d", n)
}

// typed types a command, line by line, and returns what it shows.
func (term *terminal) typed(command string) string {
	term.t.Helper()
	lines := slices.Collect(strings.Lines(command))
	for i, line := range lines {
		if _, err := term.tty.WriteString(line); err != nil {
			term.t.Fatal(err)
		}
		if i < len(lines)-1 {
			term.shown(secondPrompt)
		}
	}
	return term.shown(firstPrompt)
}

// shown waits for a prompt and returns what stands before it.
func (term *terminal) shown(prompt string) string {
	term.t.Helper()
	var text string
	eventually(term.t, "the prompt", func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		var ok bool
		if text, ok = strings.CutSuffix(term.seen.String(), prompt); ok {
			term.seen.Reset()
		}
		return ok
	})
	return text
}

var (
	mdFence   = regexp.MustCompile("(?ms)^```.*?^```")
	mdCode    = regexp.MustCompile("`[^`\n]*`")
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Every link from one document of the repository to another leads to a file, and to a
// heading in it.
func TestDocumentLinks(t *testing.T) {
	inTest(t)
	links := 0
	for _, file := range documents(t) {
		text := mdFence.ReplaceAllString(readText(t, file), "")
		for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			st, err := os.Stat(target)
			switch {
			case err != nil:
				t.Errorf("%s: the link %s leads nowhere", file, m[1])
			case anchor != "" && (st.IsDir() || !slices.Contains(anchors(readText(t, target)), anchor)):
				t.Errorf("%s: the link %s leads to no heading", file, m[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

// documents are the Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{readmeFile}
	for _, dir := range []string{"../docs", "../examples"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// anchors are the names by which a document's headings are linked to.
func anchors(text string) []string {
	var names []string
	for _, m := range mdHeading.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		name := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
