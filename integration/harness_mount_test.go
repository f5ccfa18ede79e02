package integration

import (
	"bufio"
	"cmp"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Mount is one latchfs over one data directory, or with -plain just the directory.
type Mount struct {
	Dir  string // where clients work
	Data string // the data as the filesystem underneath has it; with overItself only while stopped
	Log  string // the daemon's log
	UID  int    // who mounted, and whom clients run as unless they say otherwise
	Name string // of the variant, for messages

	t        testing.TB
	options  mountOptions
	daemon   *exec.Cmd
	exited   chan struct{} // closed when the daemon has been reaped
	notify   *net.UnixConn // where the daemon tells its state
	control  *Client       // the harness's own client, for reading .locks and the like
	logStart int64         // where in Log the running daemon began
}

type mountOptions struct {
	name       string
	uid        int
	overItself bool
	installed  bool   // the binary that is installed
	below      string // where the directories are made; empty: bench.root
	groups     []uint32
	args       []string
	config     string
	env        []string
	seed       func(data string) error
	allowLog   []*regexp.Regexp
	leftLocks  bool
	findings   []string
	foreignPID bool
	faults     *faults
}

// mountOption changes how mount sets up.
type mountOption func(*mountOptions)

// asUser mounts and runs clients as an ordinary user.
func asUser() mountOption { return func(o *mountOptions) { o.uid, o.name = ordinaryUID, "user" } }

// noPassthrough turns kernel passthrough off.
func noPassthrough() mountOption {
	return func(o *mountOptions) { o.name = "root-nopassthrough"; o.args = append(o.args, "--no-passthrough") }
}

// overItself mounts over the data directory instead of elsewhere.
func overItself() mountOption { return func(o *mountOptions) { o.overItself = true } }

// withArgs adds flags of `latchfs mount`.
func withArgs(more ...string) mountOption {
	return func(o *mountOptions) { o.args = append(o.args, more...) }
}

// lockTimeout sets --lock-timeout.
func lockTimeout(d time.Duration) mountOption { return withArgs("--lock-timeout", d.String()) }

// withPolicy mounts with a policy file of this content.
func withPolicy(toml string) mountOption { return func(o *mountOptions) { o.config = toml } }

// careless lets everybody replace what he does not know, for tests of other promises
// whose processes overwrite each other's versions without reading them again.
func careless() mountOption { return withPolicy("[defaults]\nlost-update = \"off\"\n") }

// withSeed fills the data directory before the mount; what it makes is given to the
// mount's user.
func withSeed(fill func(data string) error) mountOption {
	return func(o *mountOptions) { o.seed = fill }
}

// asInstalled mounts latchfs as it is installed, without the race detector, which takes
// more memory than what is limited may have.
func asInstalled() mountOption { return func(o *mountOptions) { o.installed = true } }

// asMostMount mounts latchfs as root does who has installed it. Where races are looked for by
// chance it has the race detector, as all other mounts have.
func asMostMount() mountOption {
	return func(o *mountOptions) { o.installed = !stress() && !hiccups() }
}

// raced tells whether the daemon has the race detector.
func (m *Mount) raced() bool { return bench.raced && !m.options.installed }

// below makes the directories of the mount in another one.
func below(dir string) mountOption { return func(o *mountOptions) { o.below = dir } }

// withGroups gives root's daemon these supplementary groups.
func withGroups(groups ...uint32) mountOption {
	return func(o *mountOptions) { o.groups = groups }
}

// leftLocks permits locks in the tables when the test ends.
func leftLocks() mountOption { return func(o *mountOptions) { o.leftLocks = true } }

// withFindings permits fsck to find these kinds of things when the test ends.
func withFindings(kinds ...string) mountOption {
	return func(o *mountOptions) { o.findings = append(o.findings, kinds...) }
}

// foreignPIDs starts latchfs in a pid namespace of its own, as in a container:
// to it every client is process 0.
func foreignPIDs() mountOption { return func(o *mountOptions) { o.foreignPID = true } }

// forEachMount runs a test in every way in which latchfs runs.
func forEachMount(t *testing.T, test func(*testing.T, *Mount), opts ...mountOption) {
	t.Helper()
	inWays(t, test, opts, way{"root", asMostMount()}, way{"root-nopassthrough", noPassthrough()}, way{"user", asUser()})
}

// inWays runs a test in those of some ways that are a part of this run.
func inWays(t *testing.T, test func(*testing.T, *Mount), opts []mountOption, some ...way) {
	t.Helper()
	if *plain {
		t.Run("plain", func(t *testing.T) { test(t, mount(t, opts...)) })
		return
	}
	if os.Geteuid() != 0 {
		some = slices.DeleteFunc(some, func(w way) bool { return w.name != "user" })
	}
	if some = waysOf(t, some...); len(some) == 0 {
		t.Skip(doneByTest)
	}
	for _, w := range some {
		t.Run(w.name, func(t *testing.T) {
			if w.name == "user" {
				requireTool(t, "fusermount3")
			}
			test(t, mountHere(t, append([]mountOption{w.option}, opts...)...))
		})
	}
}

// mount makes a data directory, mounts latchfs on it and registers everything
// that has to be undone and examined at the end of the test. As an ordinary
// user it runs everything as that user.
func mount(t testing.TB, opts ...mountOption) *Mount {
	t.Helper()
	inTest(t)
	return mountHere(t, opts...)
}

// mountHere is mount for a caller that has asked whether the test runs.
func mountHere(t testing.TB, opts ...mountOption) *Mount {
	t.Helper()
	noteProgress(t)
	o := mountOptions{name: "root", uid: os.Geteuid()}
	for _, opt := range opts {
		opt(&o)
	}
	if os.Geteuid() != 0 {
		o.uid = os.Geteuid()
	}
	m := &Mount{t: t, UID: o.uid, Name: o.name, options: o}
	if err := m.makeDirs(); err != nil {
		t.Fatal(err)
	}
	if o.overItself {
		m.Dir = m.Data
	}
	if *plain {
		m.Name, m.Dir = "plain", m.Data
		m.control = m.newControl()
		t.Cleanup(m.control.Kill)
		return m
	}
	t.Cleanup(m.cleanup)
	m.Start(t)
	return m
}

func (m *Mount) makeDirs() error {
	home, err := os.MkdirTemp(cmp.Or(m.options.below, bench.root), "m-")
	if err != nil {
		return err
	}
	if err := os.Chmod(home, 0o755); err != nil {
		return err
	}
	m.Data, m.Dir = filepath.Join(home, "data"), filepath.Join(home, "mnt")
	m.Log = filepath.Join(home, "log")
	for _, dir := range []string{m.Data, m.Dir, filepath.Join(home, "home"), filepath.Join(home, "tmp")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(home, "policy.toml"), []byte(m.options.config), 0o644); err != nil {
		return err
	}
	if m.options.seed != nil {
		if err := m.options.seed(m.Data); err != nil {
			return err
		}
	}
	if m.UID == os.Geteuid() {
		return nil
	}
	return filepath.WalkDir(home, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, m.UID, m.UID)
	})
}

// Home is a directory outside the mount that the mount's user may write to.
func (m *Mount) Home() string { return filepath.Join(filepath.Dir(m.Data), "home") }

// Path joins a name below the mount; absolute paths stay what they are.
func (m *Mount) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(m.Dir, name)
}

// asOwner gives cmd the credentials and surroundings of the mount's user.
func (m *Mount) asOwner(cmd *exec.Cmd) { m.as(cmd, m.UID) }

func (m *Mount) as(cmd *exec.Cmd, uid int) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if uid != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	base := filepath.Dir(m.Data)
	cmd.Env = append(os.Environ(),
		"HOME="+filepath.Join(base, "home"), "TMPDIR="+filepath.Join(base, "tmp"),
		"LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=", "PYTHON="+bench.python,
		"GORACE=halt_on_error=0 exitcode=66 atexit_sleep_ms=0") // a latchfs with the race detector ends at once
}

// cleanup ends the mount whatever happened and looks at what it left.
func (m *Mount) cleanup() {
	if m.Running() && !m.t.Failed() {
		m.checkTables()
	}
	if m.control != nil {
		m.control.Kill()
	}
	m.Stop(m.t)
	m.closeNotify()
	m.detach()
	if m.options.foreignPID {
		unix.Unmount(filepath.Dir(m.Data), unix.MNT_DETACH)
	}
	m.checkLog()
	m.checkFiles()
	left, err := reservedNames(m.Data)
	if err != nil {
		m.t.Errorf("looking for leftovers: %v", err)
	}
	if len(left) > 0 {
		m.t.Errorf("left in the data directory: %q", left)
	}
}

// checkTables waits for the tables to be empty: RELEASE comes after close.
func (m *Mount) checkTables() {
	if m.options.leftLocks {
		return
	}
	var last Status
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		if last = m.Status(); last.Held() == 0 && last.Waiting() == 0 {
			return
		}
	}
	m.t.Errorf("locks left at the end of the test: %s", last.Raw)
}

var trouble = regexp.MustCompile(`level=(error|fatal|panic)|^panic:|^fatal error:|^SIG[A-Z]+:|WARNING: DATA RACE`)

// checkLog fails the test when the daemon complained.
func (m *Mount) checkLog() {
	f, err := os.Open(m.Log)
	if err != nil {
		m.t.Errorf("the log: %v", err)
		return
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		if trouble.MatchString(line) && !m.permitted(line) {
			m.t.Errorf("in the log: %s", line)
			break
		}
	}
	if m.t.Failed() {
		m.t.Logf("log of latchfs:\n%s", m.log())
	}
}

func (m *Mount) permitted(line string) bool {
	for _, re := range m.options.allowLog {
		if re.MatchString(line) {
			return true
		}
	}
	return false
}

// log returns the log, cut to what one can read.
func (m *Mount) log() string {
	const limit = 16 << 10
	data, _ := os.ReadFile(m.Log)
	if len(data) > limit {
		data = append(append(data[:limit/2:limit/2], "\n[...]\n"...), data[len(data)-limit/2:]...)
	}
	return string(data)
}
