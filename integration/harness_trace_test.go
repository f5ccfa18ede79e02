package integration

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trace follows the system calls of a daemon by strace(1).
type trace struct {
	strace *exec.Cmd
	file   string
	// The daemon's descriptors of /dev/fuse, of /proc, and those by which the Go runtime wakes
	// itself.
	device, proc, wakes map[string]bool
	said                lockedBuffer
}

// unclaimed are system calls that no operation is owed: those that the Go runtime makes for
// itself, as often as the scheduler and the collector happen to need them, and those by
// which the daemon follows the forks of all processes of the machine, and looks around in
// the background.
var unclaimed = []string{
	"faccessat", "ppoll", "recvfrom", "readlinkat",
	"clone", "clone3", "epoll_ctl", "epoll_pwait", "exit", "futex", "getpid", "gettid", "madvise", "mmap", "munmap", "nanosleep",
	"restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield",
	"set_robust_list", "sigaltstack", "tgkill",
}

// trace begins to follow the daemon. What it asks strace for does not lead to the mount:
// strace would wait for the daemon that it has stopped.
func (m *Mount) trace(t *testing.T) *trace {
	t.Helper()
	tr := &trace{device: m.descriptors(t, "/dev/fuse"), proc: m.descriptors(t, "/proc"), wakes: m.descriptors(t, "anon_inode:[eventfd]")}
	tr.file = filepath.Join(m.Home(), "trace")
	tr.strace = exec.Command("strace", "-f", "-x", "-s", "16", "-e", "trace=!"+strings.Join(unclaimed, ","),
		"-o", tr.file, "-p", strconv.Itoa(m.PID()))
	tr.strace.Stderr = &tr.said
	tr.strace.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := tr.strace.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.strace.Process.Kill() })
	eventually(t, "strace follows the daemon", func() bool { return strings.Contains(tr.said.String(), " attached") })
	return tr
}

// descriptors finds the daemon's descriptors of a path; those of /proc with the files of
// other processes that stay open.
func (m *Mount) descriptors(t *testing.T, path string) map[string]bool {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", m.PID())
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	own, found := fmt.Sprintf("/proc/%d/", m.PID()), map[string]bool{}
	for _, fd := range all {
		if to, _ := os.Readlink(filepath.Join(dir, fd.Name())); to == path || path == "/proc" && strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, own) {
			found[fd.Name()] = true
		}
	}
	if len(found) == 0 {
		t.Fatalf("latchfs has no descriptor of %s", path)
	}
	return found
}

// end ends the trace when the daemon has answered what it was asked, and counts.
func (tr *trace) end(t *testing.T) costs {
	t.Helper()
	var c *count
	eventually(t, "the daemon has answered", func() bool {
		data, err := os.ReadFile(tr.file)
		if err != nil {
			t.Fatal(err)
		}
		c = countTrace(string(data), tr)
		return len(c.owed) == 0
	})
	tr.strace.Process.Signal(syscall.SIGINT)
	done := make(chan struct{})
	go func() { tr.strace.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("strace does not end: %s", tr.said.String())
	}
	return c.total
}

// each divides costs among so many operations.
func (c costs) each(operations int) costs {
	each := maps.Clone(c)
	for name := range each {
		each[name] /= float64(operations)
	}
	return each
}

// The kinds of what is counted, in the order in which they are shown.
const (
	costRequest      = "request"
	costNotification = "notification"
	costSync         = "sync"
	costProc         = "proc" // files of /proc that are opened, whatever is then done with them
	costCall         = "call"

	costProcAgain = costProc + " again" // a file that has stayed open is read
)

var costKinds = []string{costRequest, costNotification, costSync, costProc, costCall}

// count is what was seen in a trace.
type count struct {
	of    *trace
	proc  map[string]bool // descriptors of what is in /proc
	total costs
	owed  map[uint64]bool // requests without an answer
}

var (
	resumed   = regexp.MustCompile(`^<\.\.\. \w+ resumed>`)
	callOn    = regexp.MustCompile(`^(\w+)\((\w*)`)
	procFile  = regexp.MustCompile(`^openat\(\d+, "(?:.*/)?(\w+)`)
	firstText = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})+)"`)
	succeeded = regexp.MustCompile(` = (\d+)$`)
	digits    = regexp.MustCompile(`^\d+$`)
)

// countTrace counts what strace has written.
func countTrace(text string, tr *trace) *count {
	c := &count{of: tr, proc: maps.Clone(tr.proc), total: costs{}, owed: map[uint64]bool{}}
	unfinished := map[string]string{} // the first halves of calls, by thread
	for line := range strings.Lines(text) {
		thread, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !strings.HasSuffix(line, "\n") {
			continue
		}
		rest = strings.TrimLeft(rest, " ")
		if first, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
			unfinished[thread] = first
			continue
		}
		if second := resumed.FindString(rest); second != "" {
			rest = unfinished[thread] + rest[len(second):]
			delete(unfinished, thread)
		}
		c.add(rest)
	}
	return c
}

// add counts one system call.
func (c *count) add(call string) {
	on := callOn.FindStringSubmatch(call)
	if on == nil {
		return // a signal, or the end of a thread
	}
	name, fd := on[1], on[2]
	switch {
	case c.of.wakes[fd] && (name == "read" || name == "write"):
	case c.of.device[fd] && name != "ioctl":
		c.addMessage(name, call)
	case c.proc[fd]:
		c.addProc(name, fd, call)
	case slices.Contains([]string{"fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "msync"}, name):
		c.total[costSync+" "+name]++
	default:
		c.total[costCall+" "+name]++
	}
}

// addProc counts what is opened in /proc.
func (c *count) addProc(name, fd, call string) {
	switch name {
	case "close":
		delete(c.proc, fd)
	case "pread64":
		c.total[costProcAgain]++
	case "openat":
		file := procFile.FindStringSubmatch(call)
		if file == nil {
			break
		}
		if digits.MatchString(file[1]) {
			file[1] = "N"
		}
		c.total[costProc+" "+file[1]]++
		if opened := succeeded.FindStringSubmatch(call); opened != nil {
			c.proc[opened[1]] = true
		}
	}
}

// addMessage counts what is read from the kernel or written to it.
func (c *count) addMessage(name, call string) {
	text := firstText.FindStringSubmatch(call)
	if text == nil || !succeeded.MatchString(call) {
		return // nothing was there to read
	}
	var head [16]byte
	for i, octet := range strings.Split(text[1], `\x`)[1:] {
		b, _ := strconv.ParseUint(octet, 16, 8)
		head[i] = byte(b)
	}
	code, unique := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint64(head[8:])
	if strings.HasPrefix(name, "write") {
		if delete(c.owed, unique); unique == 0 {
			c.total[costNotification+" "+nameOf(notificationNames, code)]++
		}
		return
	}
	op := nameOf(requestNames, code)
	c.total[costRequest+" "+op]++
	if op != "FORGET" && op != "BATCH_FORGET" && op != "INTERRUPT" {
		c.owed[unique] = true
	}
}

func nameOf(names map[uint32]string, code uint32) string {
	if name, ok := names[code]; ok {
		return name
	}
	return fmt.Sprint(code)
}

// The codes of include/uapi/linux/fuse.h: enum fuse_opcode, enum fuse_notify_code.
var (
	requestNames = map[uint32]string{
		1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK", 8: "MKNOD", 9: "MKDIR",
		10: "UNLINK", 11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN", 15: "READ", 16: "WRITE", 17: "STATFS",
		18: "RELEASE", 20: "FSYNC", 21: "SETXATTR", 22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH",
		26: "INIT", 27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR", 30: "FSYNCDIR", 31: "GETLK", 32: "SETLK",
		33: "SETLKW", 34: "ACCESS", 35: "CREATE", 36: "INTERRUPT", 37: "BMAP", 38: "DESTROY", 39: "IOCTL", 40: "POLL",
		42: "BATCH_FORGET", 43: "FALLOCATE", 44: "READDIRPLUS", 45: "RENAME2", 46: "LSEEK", 47: "COPY_FILE_RANGE",
		50: "SYNCFS", 51: "TMPFILE", 52: "STATX",
	}
	notificationNames = map[uint32]string{1: "POLL", 2: "INVAL_INODE", 3: "INVAL_ENTRY", 4: "STORE", 5: "RETRIEVE", 6: "DELETE"}
)
