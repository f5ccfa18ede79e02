// Package integration runs the built latchfs binary on real mounts with real
// processes as its clients, and holds it to the promises of the README.
//
// The tests are shared out to processes, a few of which run at the same time (-processes 1:
// one). As root each lives in a mount namespace of its own, so that a mount it leaves
// behind dies with it. Every mount is started on a fresh data directory, and when a test
// ends its mount is stopped as an operator would stop it (SIGTERM) and then examined: no
// lock left in the tables, no reserved name left in the data, no error, panic or data race
// in the log. A test that expects an error in the log says so.
//
// forEachMount runs a test once for every way in which latchfs runs: as root
// with kernel passthrough, as root without, and as an ordinary user through
// fusermount3. The first runs the binary that is installed, as the commands of all tests
// do; the other daemons have the race detector. Clients are processes: the helper program in
// internal/client for step-by-step scenarios, python3 and bash for what real programs do.
//
// With -plain the same tests run on plain directories, without latchfs. That is
// how to see that a test can fail: a scenario whose promise a plain directory
// breaks must fail there.
//
// Environment: LATCHFS_STRESS=1 for the long versions, and for tests of chance,
// LATCHFS_BINARY to test a binary that is already built, LATCHFS_TEST_DIR for the place
// of the data directories (default: the temporary directory), LATCHFS_KEEP=1 to keep
// them, LATCHFS_HICCUPS=100ms to take the processors away for moments. Which test is a
// part of make test, of make test-all and of make stress, harness_scope_test.go says.
package integration

import (
	"cmp"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var plain = flag.Bool("plain", false, "run the scenarios on plain directories instead of mounts")

const (
	// patience bounds every wait for an event that must come; it is never the
	// thing that is measured. Another job may take most of the machine for a minute.
	patience = 2 * time.Minute
	// poll is the pause between two looks at something that offers no event.
	poll = 2 * time.Millisecond

	stressEnv  = "LATCHFS_STRESS"
	hiccupsEnv = "LATCHFS_HICCUPS"
	binaryEnv  = "LATCHFS_BINARY"

	binaryName = "latchfs"
	checkedDir = "checked" // the directory of the latchfs that has the race detector
	clientName = "client"

	ordinaryUID = 65534 // nobody, who exists on every Linux
	otherUID    = 65533 // somebody else again
)

// bench is what all tests share: the built programs and where data directories go.
var bench struct {
	root    string // directory of this share of the tests, open to every user
	binary  string // latchfs as it is installed
	checked string // latchfs with the race detector, or binary where that is not to be had
	raced   bool   // checked has the race detector
	client  string // internal/client
	python  string // a python3 that every user may execute
}

// stress tells whether the long versions were asked for.
func stress() bool { return os.Getenv(stressEnv) != "" }

// hiccups tells whether the processors are taken away for moments.
func hiccups() bool { return os.Getenv(hiccupsEnv) != "" }

// promised is a promised time as a test may hold the binary to it: the race detector
// makes everything several times slower, and during hiccups nothing is promised but
// that it comes. Elsewhere than in make stress others may use the machine, so that a
// test fails only for what is ten times as slow as promised: make bench measures.
func promised(d time.Duration) time.Duration {
	most := max(d, 15*time.Second)
	switch {
	case hiccups():
		return most
	case bench.raced:
		d *= 4
	}
	if !stress() {
		d *= 10
	}
	return min(d, most)
}

// repeat is short by default and long under LATCHFS_STRESS.
func repeat(short, long int) int {
	if stress() {
		return long
	}
	return short
}

func TestMain(m *testing.M) {
	flag.Parse()
	heedSignals()
	forgetMake()
	if onlyLists() {
		os.Exit(m.Run())
	}
	share := os.Getenv(shareEnv)
	if share == "" {
		os.Exit(runShares())
	}
	if err := prepare(share); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		os.Exit(1)
	}
	runBeside()
	tellProgress(share)
	code := m.Run()
	if err := passMissing(); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// heedSignals gives the programs that the tests run the default action of signals
// that this process was started with as ignored, as nohup(1) and the background jobs
// of a script are: an ignored signal stays ignored over exec, and a handled one does not.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// forgetMake takes away what make(1) has told this process, so that a make that a test runs
// is nobody's child: as a child it would print the directories that it enters.
func forgetMake() {
	for _, name := range []string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL"} {
		os.Unsetenv(name)
	}
}

// leaveOthersMounts takes away, in this namespace of ours, the mounts of latchfs that the
// machine had when the tests began: what looks at all mounts is to find those of the tests.
func leaveOthersMounts() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		_, source, _ := strings.Cut(line, " - ")
		if len(fields) > 4 && strings.HasPrefix(source, "fuse.latchfs ") {
			at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("leave the mount %s: %w", at, err)
			}
		}
	}
	return nil
}

// prepare makes the directory of this share of the tests, and finds the programs that
// buildPrograms has made.
func prepare(share string) (err error) {
	run := os.Getenv(runEnv)
	number, _, _ := strings.Cut(share, " ")
	bench.root = filepath.Join(run, number)
	if err := os.Mkdir(bench.root, 0o755); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := leaveOthersMounts(); err != nil {
			return err
		}
		// As systemd does: by this a daemon that is killed ends its mount. Without it, or
		// where it is mounted already, the tests are none the worse.
		_ = unix.Mount("fusectl", "/sys/fs/fuse/connections", "fusectl", 0, "")
	}
	if err := os.Chmod(bench.root, 0o755); err != nil { // whatever the umask is
		return err
	}
	if bench.python, err = findPython(); err != nil {
		return err
	}
	bench.client = filepath.Join(run, clientName)
	if *plain {
		return nil
	}
	if os.Geteuid() == 0 {
		if err := openFuseDevice(); err != nil {
			return fmt.Errorf("/dev/fuse for ordinary users: %w", err)
		}
	}
	bench.binary, err = filepath.Abs(cmp.Or(os.Getenv(binaryEnv), filepath.Join(run, binaryName)))
	if err != nil {
		return err
	}
	bench.checked = bench.binary
	bench.checked = bench.binary
	checked := filepath.Join(run, checkedDir, binaryName)
	if _, err := os.Stat(checked); err == nil { // buildPrograms has made it
		bench.checked = checked
	}
	if info, err := buildinfo.ReadFile(bench.checked); err == nil { // else it is a script around one
		bench.raced = slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	}
	return nil
}

// buildPrograms builds into a directory what all shares of the tests run.
func buildPrograms(dir string) error {
	if err := build(filepath.Join(dir, clientName), "./integration/internal/client"); err != nil || *plain || os.Getenv(binaryEnv) != "" {
		return err
	}
	installed := buildCommand(filepath.Join(dir, binaryName), "./cmd/latchfs", "-trimpath")
	installed.Env = append(installed.Environ(), "CGO_ENABLED=0") // as make build does
	err := finishBuild(installed)
	if err == nil && raceAvailable() {
		err = build(filepath.Join(dir, checkedDir, binaryName), "./cmd/latchfs", "-race")
	}
	return err
}

func build(out, pkg string, flags ...string) error {
	return finishBuild(buildCommand(out, pkg, flags...))
}

func buildCommand(out, pkg string, flags ...string) *exec.Cmd {
	args := append([]string{"build", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = ".."
	return cmd
}

func finishBuild(cmd *exec.Cmd) error {
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, msg)
	}
	return nil
}

// raceAvailable tells whether the race detector can be linked: it needs cgo and
// a C compiler, which a machine with only Go does not have.
func raceAvailable() bool {
	out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		return false
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || fields[0] != "1" {
		return false
	}
	_, err = exec.LookPath(fields[1])
	return err == nil
}

// findPython prefers the system's python3: one under a home directory cannot be
// executed by another user, and a version manager's shim is a shell script.
func findPython() (string, error) {
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3", nil
	}
	return exec.LookPath("python3")
}

// openFuseDevice gives ordinary users /dev/fuse as udev does on a real machine:
// a node of our own, in the tests' own mount namespace only.
func openFuseDevice() error {
	info, err := os.Stat("/dev/fuse")
	if err != nil {
		return err
	}
	dir := filepath.Join(bench.root, "dev")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"); err != nil {
		return err
	}
	node := filepath.Join(dir, "fuse")
	rdev := int(info.Sys().(*syscall.Stat_t).Rdev)
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, rdev); err != nil {
		return err
	}
	if err := os.Chmod(node, 0o666); err != nil {
		return err
	}
	return unix.Mount(node, "/dev/fuse", "", unix.MS_BIND, "")
}

// requireTool skips a test whose program is not installed.
func requireTool(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			leftOut(t, "", name)
			t.Skipf("%s is not installed", name)
		}
	}
}

// eventually waits until ok holds, and fails the test with what when it does
// not within patience.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, patience, what, ok)
}

// within is eventually with a limit that is part of the promise.
func within(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(most); ; time.Sleep(poll) {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", most, what)
		}
	}
}

// reservedNames lists what carries latchfs's reserved prefix below dir, the
// state directory at the top excepted.
func reservedNames(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == ".latchfs" {
			return filepath.SkipDir
		}
		if strings.HasPrefix(d.Name(), ".latchfs") {
			found = append(found, rel)
		}
		return nil
	})
	return found, err
}
