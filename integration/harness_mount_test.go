package integration

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mount is one latchfs over one data directory, or with -plain just the directory.
type Mount struct {
	Dir  string // where clients work
	Data string // the data as the filesystem underneath has it; with overItself only while stopped
	Log  string // the daemon's log
	UID  int    // who mounted, and whom clients run as unless they say otherwise
	Name string // of the variant, for messages

	t        *testing.T
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
	args       []string
	config     string
	env        []string
	seed       func(data string) error
	allowLog   []*regexp.Regexp
	leftLocks  bool
	foreignPID bool
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

// withEnv adds to the daemon's environment.
func withEnv(pairs ...string) mountOption {
	return func(o *mountOptions) { o.env = append(o.env, pairs...) }
}

// withSeed fills the data directory before the mount; what it makes is given to the
// mount's user.
func withSeed(fill func(data string) error) mountOption {
	return func(o *mountOptions) { o.seed = fill }
}

// allowLog permits error lines that match.
func allowLog(pattern string) mountOption {
	return func(o *mountOptions) { o.allowLog = append(o.allowLog, regexp.MustCompile(pattern)) }
}

// leftLocks permits locks in the tables when the test ends.
func leftLocks() mountOption { return func(o *mountOptions) { o.leftLocks = true } }

// foreignPIDs starts latchfs in a pid namespace of its own, as in a container:
// to it every client is process 0.
func foreignPIDs() mountOption { return func(o *mountOptions) { o.foreignPID = true } }

// forEachMount runs a test in every way in which latchfs runs.
func forEachMount(t *testing.T, test func(*testing.T, *Mount), opts ...mountOption) {
	t.Helper()
	if *plain {
		t.Run("plain", func(t *testing.T) { test(t, mount(t, opts...)) })
		return
	}
	if os.Geteuid() == 0 {
		t.Run("root", func(t *testing.T) { test(t, mount(t, opts...)) })
		t.Run("root-nopassthrough", func(t *testing.T) {
			test(t, mount(t, append([]mountOption{noPassthrough()}, opts...)...))
		})
	}
	t.Run("user", func(t *testing.T) {
		requireTool(t, "fusermount3")
		test(t, mount(t, append([]mountOption{asUser()}, opts...)...))
	})
}

// mount makes a data directory, mounts latchfs on it and registers everything
// that has to be undone and examined at the end of the test. As an ordinary
// user it runs everything as that user.
func mount(t *testing.T, opts ...mountOption) *Mount {
	t.Helper()
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
	home, err := os.MkdirTemp(bench.root, "m-")
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
		"LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "PYTHON="+bench.python)
}

// Start mounts; it returns when the mount answers.
func (m *Mount) Start(t *testing.T) {
	t.Helper()
	ready, err := m.listenReady()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(m.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if st, err := log.Stat(); err == nil {
		m.logStart = st.Size()
	}
	m.daemon = exec.Command(bench.binary, m.arguments()...)
	m.daemon.Stdout, m.daemon.Stderr = log, log
	m.asOwner(m.daemon)
	if m.options.foreignPID {
		m.separatePIDs(t)
	}
	m.daemon.Env = append(m.daemon.Env, "NOTIFY_SOCKET="+m.notifySocket(),
		"GORACE=halt_on_error=0 exitcode=66 atexit_sleep_ms=0")
	m.daemon.Env = append(m.daemon.Env, m.options.env...)
	if err := m.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	m.exited = make(chan struct{})
	go func() {
		m.daemon.Wait()
		close(m.exited)
	}()
	if err := m.awaitReady(ready); err != nil {
		t.Fatalf("latchfs %s: %v\n%s", strings.Join(m.arguments(), " "), err, m.log())
	}
	m.control = m.newControl()
}

// separatePIDs has the daemon started in new pid and mount namespaces, with its
// own /proc, from which its mount propagates to us.
func (m *Mount) separatePIDs(t *testing.T) {
	t.Helper()
	base := filepath.Dir(m.Data)
	if err := unix.Mount(base, base, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", base, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"sh", "-c", `mount -t proc proc /proc && exec "$@"`, "sh"}, m.daemon.Args...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	m.daemon.Path, m.daemon.Args = sh, argv
	m.daemon.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
}

func (m *Mount) arguments() []string {
	argv := append([]string{"mount", "--foreground"}, m.options.args...)
	if m.options.config != "" {
		argv = append(argv, "--config", filepath.Join(filepath.Dir(m.Data), "policy.toml"))
	}
	argv = append(argv, m.Data)
	if !m.options.overItself {
		argv = append(argv, m.Dir)
	}
	return argv
}

func (m *Mount) closeNotify() {
	if m.notify != nil {
		m.notify.Close()
	}
}

func (m *Mount) notifySocket() string { return filepath.Join(m.Home(), "notify") }

// listenReady takes what the daemon tells its service manager: the channel is
// closed when it says READY=1.
func (m *Mount) listenReady() (<-chan struct{}, error) {
	m.closeNotify()
	os.Remove(m.notifySocket())
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notifySocket(), Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	m.notify = conn
	ready := make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		for said := false; ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if !said && strings.Contains(string(buf[:n]), "READY=1") {
				said = true
				close(ready)
			}
		}
	}()
	return ready, os.Chmod(m.notifySocket(), 0o777)
}

// awaitReady waits for READY=1, which latchfs sends when its mount answers.
func (m *Mount) awaitReady(ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-m.exited:
		return fmt.Errorf("ended before it was ready: %v", m.daemon.ProcessState)
	case <-time.After(patience):
		return errors.New("no READY=1")
	}
}

// PID is the daemon's.
func (m *Mount) PID() int { return m.daemon.Process.Pid }

// Running tells whether the daemon is there.
func (m *Mount) Running() bool {
	if m.daemon == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// Stop ends the daemon with SIGTERM, and fails the test unless it exits cleanly
// and leaves no mount.
func (m *Mount) Stop(t testing.TB) {
	t.Helper()
	if !m.Running() {
		return
	}
	m.daemon.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.exited:
	case <-time.After(patience):
		m.dumpDaemon()
		t.Errorf("latchfs did not end within %v of SIGTERM", patience)
		m.Crash(t)
		return
	}
	if state := m.daemon.ProcessState; state.ExitCode() != 0 {
		t.Errorf("latchfs ended with %v", state)
	}
	if m.mounted() {
		t.Errorf("the mount is still there after latchfs ended")
		m.detach()
	}
}

// dumpDaemon asks the Go runtime for all stacks, for the log.
func (m *Mount) dumpDaemon() {
	m.daemon.Process.Signal(syscall.SIGQUIT)
	select {
	case <-m.exited:
	case <-time.After(5 * time.Second):
	}
}

// Crash kills the daemon and leaves its dead mount in place, as a crash does.
func (m *Mount) Crash(t testing.TB) {
	m.daemon.Process.Kill()
	select {
	case <-m.exited:
	case <-time.After(patience):
		t.Errorf("latchfs does not die of SIGKILL")
	}
}

// detach is the last resort: it takes the mount away whoever uses it.
func (m *Mount) detach() {
	for m.mounted() {
		if err := unix.Unmount(m.Dir, unix.MNT_DETACH); err != nil {
			exec.Command("fusermount3", "-u", "-z", m.Dir).Run()
			return
		}
	}
}

// mounted tells whether anything is mounted at the mount point.
func (m *Mount) mounted() bool {
	found, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(m.Dir))
	return err == nil && len(found) > 0
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
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(poll) {
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
