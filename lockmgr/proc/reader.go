package proc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of this package; all others are those of the system calls.
var (
	// ErrGone means that there is no such process or thread any more.
	ErrGone = errors.New("process is gone")
	// ErrForeign means that the caller is in a pid namespace that cannot be
	// seen from here: the kernel gives its thread id as 0.
	ErrForeign = errors.New("process is in a foreign pid namespace")
	// ErrBusy means that the process is inside execve, or holds its memory lock,
	// and that the answer cannot be had before it goes on.
	ErrBusy = errors.New("process cannot be inspected at the moment")
)

// trustFor is how long what was read is believed without a look at /proc. It is
// far below the time in which the kernel can give out every pid once.
const trustFor = 10 * time.Millisecond

// Reader answers questions about processes. Its methods may be called by
// several goroutines at once.
type Reader struct {
	proc    int       // /proc
	loadavg int       // /proc/loadavg
	users   [2]string // uid_map and gid_map of our own user namespace
	kids    bool      // the kernel has task/*/children
	sched   bool      // the kernel has task/*/schedstat

	refs      atomic.Int32 // who uses the descriptors: the owner, and patient questions
	known     cache
	questions questions
	// fileQuestions are those about descriptors.
	fileQuestions questions
	watches       watches
	families      familyCache
	environs      environs
	keeper        keeper
	forks         *forks // nil unless FollowForks has been called
}

// New opens a procfs, "/proc" by default, and checks that it answers what the
// package needs: it must belong to the caller's own pid namespace, and its
// kernel must be 5.14 or newer.
func New(procRoot string) (*Reader, error) {
	if procRoot == "" {
		procRoot = "/proc"
	}
	r := &Reader{proc: -1, loadavg: -1}
	r.questions.grace, r.questions.most = hungAfter, maxAskedOf
	r.fileQuestions.grace, r.fileQuestions.most = hungAfter, maxFilesOf
	r.keeper.of = map[int32]*kept{}
	r.refs.Store(1)
	if err := r.open(procRoot); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", procRoot, err)
	}
	return r, nil
}

func (r *Reader) open(procRoot string) error {
	var err error
	if r.proc, err = unix.Open(procRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if self, err := r.link("self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return errors.New("is not the procfs of this pid namespace")
	}
	if r.loadavg, err = unix.Openat(r.proc, "loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("loadavg: %w", err)
	}
	if _, err := r.lastPID(); err != nil {
		return err
	}
	info, err := r.readAll("self/fdinfo/" + strconv.Itoa(r.proc))
	if err != nil {
		return err
	}
	if _, ok := field(info, "ino"); !ok {
		return errors.New("fdinfo has no inode numbers: Linux 5.14 or newer is needed")
	}
	if r.users, err = r.idMaps("self/"); err != nil {
		return err
	}
	_, err = r.readAll("thread-self/children")
	r.kids = err == nil
	// Where the kernel does not keep count it may still have the file. A thread
	// that reads has run, and so has one time slice at least.
	sched, err := r.readAll("thread-self/schedstat")
	r.sched = err == nil && string(sched) != "0 0 0\n"
	return nil
}

// Close releases the descriptors. It is called once, when no other call is under
// way. Watches go on.
func (r *Reader) Close() {
	r.UnfollowForks()
	r.keeper.close()
	r.release()
}

// release ends one use of the descriptors. The last one closes them: a question
// that got stuck may outlive everything else.
func (r *Reader) release() {
	if r.refs.Add(-1) > 0 {
		return
	}
	for _, fd := range []int{r.proc, r.loadavg} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// firstRead is how long a file may be that is read at once.
const firstRead = 4096

// buffers hold one read of a small file.
var buffers = sync.Pool{New: func() any { return new([firstRead]byte) }}

// withFile reads a file that the kernel renders in one piece and hands its
// content to use, which must not keep it.
func (r *Reader) withFile(path string, use func([]byte) error) error {
	fd, err := openat(r.proc, path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return withContent(fd, use)
}

func withContent(fd int, use func([]byte) error) error {
	return withStart(fd, func(start []byte) error {
		if len(start) < firstRead {
			return use(start)
		}
		content, err := readRest(fd, start, math.MaxInt)
		if err != nil {
			return err
		}
		return use(content)
	})
}

// withStart is withContent for what one read gives.
func withStart(fd int, use func([]byte) error) error {
	buf := buffers.Get().(*[firstRead]byte)
	defer buffers.Put(buf)
	n, err := read(fd, buf[:])
	if err != nil {
		return err
	}
	return use(buf[:n])
}

// readAll reads a file of any length.
func (r *Reader) readAll(path string) ([]byte, error) { return r.readUpTo(path, math.MaxInt) }

// readUpTo reads a file, but no more of it than the limit.
func (r *Reader) readUpTo(path string, limit int) ([]byte, error) {
	fd, err := openat(r.proc, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readRest(fd, nil, limit)
}

// readRest reads until the end of the file or the limit, and returns it after
// what is there already, in a slice of its own.
func readRest(fd int, start []byte, limit int) ([]byte, error) {
	content := append(make([]byte, 0, 4*len(start)+firstRead), start...)
	for len(content) < limit {
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
		n, err := read(fd, content[len(content):min(cap(content), limit)])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return content, nil
		}
		content = content[:len(content)+n]
	}
	return content, nil
}

// link reads a symbolic link of /proc.
func (r *Reader) link(path string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(r.proc, path, buf[:])
	if err != nil {
		return "", gone(err)
	}
	return string(buf[:n]), nil
}

func openat(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, gone(err)
		}
	}
}

func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return max(n, 0), gone(err)
		}
	}
}

// gone maps the ways in which /proc says that a process has gone to ErrGone.
func gone(err error) error {
	if err == unix.ENOENT || err == unix.ESRCH {
		return ErrGone
	}
	return err
}

// field returns the value of a "name:  value" line.
func field(content []byte, name string) (string, bool) {
	for line := range bytes.Lines(content) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		if rest, ok = bytes.CutPrefix(rest, []byte(":")); ok {
			return string(bytes.TrimSpace(rest)), true
		}
	}
	return "", false
}

// pidPath is the path of a process's file below /proc.
func pidPath[T int32 | uint32](pid T, file string) string {
	var b [64]byte
	s := strconv.AppendInt(b[:0], int64(pid), 10)
	s = append(s, '/')
	return string(append(s, file...))
}

// taskPath is the path of a thread's file below /proc.
func taskPath(pid, tid int32, file string) string {
	return pidPath(pid, "task/") + pidPath(tid, file)
}
