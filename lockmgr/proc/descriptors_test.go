package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// A filesystem that does not answer is not asked, be it the one of the file or of another
// descriptor.
func TestOpensAsksNoFilesystem(t *testing.T) {
	var hangs, asked atomic.Bool
	answer := make(chan struct{})
	path := (&oneFile{t: t, flush: func(uint32) {}, getattr: func() {
		if hangs.Load() {
			asked.Store(true)
			<-answer
		}
	}}).mount()
	r := newReader(t)
	c := startChild(t)
	t.Cleanup(func() { close(answer) }) // before the child is waited for
	slow := fileOf(t, path)
	file, other := tempFile(t)
	c.do("open", unix.O_RDWR, path)
	c.do("open", unix.O_RDONLY, other)
	hangs.Store(true)
	quickly(t, "Opens", func() {
		wantOpens(t, r, c.pid(), slow, 1, 0)
		wantOpens(t, r, c.pid(), file, 0, 1)
		if !r.AtStart(c.pid(), file) || r.IsOutput(c.pid(), slow) {
			t.Error("a file at its start is not there, or another one is an output")
		}
	})
	if asked.Load() {
		t.Error("the filesystem is asked for the attributes of its file")
	}
}

// On a filesystem that is another user's alone no inode can be looked at, by root neither.
func TestOpensOnAnothersFilesystem(t *testing.T) {
	const user = 61003
	path := (&oneFile{t: t, flush: func(uint32) {}, user: user}).mount()
	reachable(t, filepath.Dir(path))
	r := newReader(t)
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	})
	fd := c.number("open", unix.O_RDWR, path)
	dir, err := r.root.OpenDir(procfs.PIDPath(c.pid(), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	if _, _, err := inodeOf(dir, fd); err != unix.EACCES {
		t.Fatalf("a look at the inode: %v; the test tests nothing", err)
	}
	info, err := r.root.ReadAll(procfs.PIDPath(c.pid(), "fdinfo/"+itoa(int(fd))))
	d, ok := procfs.ParseFdinfo(info)
	if !ok || err != nil {
		t.Fatalf("fdinfo: %s, %v", info, err)
	}
	wantOpens(t, r, c.pid(), File{Ino: d.Ino, MountID: d.MountID}, 1, 0)
}

// reachable lets every user walk to a directory below that of the temporary files.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for dir = filepath.Dir(dir); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// A file keeps its inode without a name.
func TestOpensDeleted(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	file, path := tempFile(t)
	c.do("open", unix.O_RDWR, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantOpens(t, r, c.pid(), file, 1, 0)
}

// The cost of a look at a process with many descriptors, half of them of files.
func BenchmarkOpensOfMany(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			fill(b, n)
			r := newReader(b)
			pid := int32(os.Getpid())
			for b.Loop() {
				if _, _, err := r.Opens(pid, File{Dev: 1, Ino: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/descriptor")
		})
	}
}

// fill opens descriptors of files and sockets until the process has some.
func fill(b *testing.B, n int) {
	b.Helper()
	limit := unix.Rlimit{Cur: 20000, Max: 20000}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		b.Skip(err)
	}
	dir := b.TempDir()
	for i := len(mustReadDir(b, "/proc/self/fd")); i < n; i++ {
		var fd int
		var err error
		if i%2 == 0 {
			fd, err = unix.Open(fmt.Sprint(dir, "/", i), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		} else {
			fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { unix.Close(fd) })
	}
}
