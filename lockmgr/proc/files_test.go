package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/patience"
	"latchfs/lockmgr/proc/internal/procfs"
)

// tempFile makes a file of one page and says where /proc will show it.
func tempFile(t *testing.T) (File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 4096), 0o666); err != nil {
		t.Fatal(err)
	}
	return fileOf(t, path), path
}

func fileOf(t *testing.T, path string) File {
	t.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		t.Fatal(err)
	}
	return File{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino, MountID: int(st.Mnt_id)}
}

func wantOpens(t *testing.T, r *Reader, pid int32, f File, writable, readable int) {
	t.Helper()
	w, ro, err := r.Opens(pid, f)
	if w != writable || ro != readable || err != nil {
		t.Errorf("Opens: %d writable, %d readable, %v; want %d, %d", w, ro, err, writable, readable)
	}
}

func TestOpens(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	file, path := tempFile(t)
	_, other := tempFile(t)

	wantOpens(t, r, c.pid(), file, 0, 0)
	c.do("open", unix.O_RDWR, other)
	wantOpens(t, r, c.pid(), file, 0, 0)
	fd := c.do("open", unix.O_WRONLY, path)
	wantOpens(t, r, c.pid(), file, 1, 0)
	c.do("open", unix.O_RDONLY, path)
	wantOpens(t, r, c.pid(), file, 1, 1)
	c.do("open", unix.O_RDWR|unix.O_APPEND, path)
	wantOpens(t, r, c.pid(), file, 2, 1)
	c.do("open", unix.O_PATH, path)
	wantOpens(t, r, c.pid(), file, 2, 1)
	c.do("dup", fd)
	wantOpens(t, r, c.pid(), file, 3, 1)
	c.do("close", fd)
	wantOpens(t, r, c.pid(), file, 2, 1)

	unknown := file
	unknown.MountID = 0
	wantOpens(t, r, c.pid(), unknown, 2, 1)
	elsewhere := unknown
	elsewhere.Dev++
	wantOpens(t, r, c.pid(), elsewhere, 0, 0)

	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	wantOpens(t, r, c.pid(), file, 0, 0)
}

func TestOpensMany(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	file, path := tempFile(t)
	for range 300 { // more than one getdents buffer holds
		c.do("open", unix.O_WRONLY, path)
	}
	wantOpens(t, r, c.pid(), file, 300, 0)
}

// A child that inherited the descriptor has it, whether or not the parent still
// does.
func TestOpensInherited(t *testing.T) {
	r := newReader(t)
	file, path := tempFile(t)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := startChild(t, func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{f} })
	wantOpens(t, r, c.pid(), file, 1, 0)
	f.Close()
	wantOpens(t, r, c.pid(), file, 1, 0)
	wantOpens(t, r, int32(os.Getpid()), file, 0, 0)
	c.do("close", 3)
	wantOpens(t, r, c.pid(), file, 0, 0)
}

// ownMounts starts a child in a mount namespace of its own, where every mount
// has another id.
func ownMounts(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = inUserNamespace(unix.CLONE_NEWNS)
	}
}

func inUserNamespace(more uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | more,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

func TestOpensInOtherMountNamespace(t *testing.T) {
	r := newReader(t)
	c := startChild(t, ownMounts)
	file, path := tempFile(t)
	c.do("open", unix.O_WRONLY, path)
	info, err := r.root.ReadAll(procfs.PIDPath(c.pid(), "fdinfo/"+c.do("open", unix.O_RDONLY, path)))
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := procfs.ParseFdinfo(info); !ok || d.MountID == file.MountID {
		t.Fatalf("the child's mount is %d, ours %d: the test tests nothing", d.MountID, file.MountID)
	}
	wantOpens(t, r, c.pid(), file, 1, 1)
	file.Dev++
	wantOpens(t, r, c.pid(), file, 0, 0)
}

func wantMaps(t *testing.T, r *Reader, pid int32, f, backing File, want bool) {
	t.Helper()
	got, err := r.MapsWritable(pid, f, backing)
	if got != want || err != nil {
		t.Errorf("MapsWritable: %t, %v; want %t", got, err, want)
	}
	text, err := r.root.ReadAll(procfs.PIDPath(pid, "maps"))
	if err != nil {
		t.Fatal(err)
	}
	is := func(dev, ino uint64) bool {
		return dev == f.Dev && ino == f.Ino || ino != 0 && dev == backing.Dev && ino == backing.Ino
	}
	if procfs.ParseMaps(text, is) != want {
		t.Errorf("the text of maps says %t, want %t:\n%s", !want, want, text)
	}
}

func TestMapsWritable(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	file, path := tempFile(t)
	other, otherPath := tempFile(t)
	fd, fd2 := c.do("open", unix.O_RDWR, path), c.do("open", unix.O_RDWR, otherPath)
	const rw = unix.PROT_READ | unix.PROT_WRITE

	c.do("mmap", fd, rw, unix.MAP_PRIVATE, "private")
	wantMaps(t, r, c.pid(), file, File{}, false)
	c.do("mmap", fd, unix.PROT_READ, unix.MAP_SHARED, "readonly")
	wantMaps(t, r, c.pid(), file, File{}, false)
	c.do("mmap", fd2, rw, unix.MAP_SHARED, "other")
	wantMaps(t, r, c.pid(), file, File{}, false)
	c.do("mmap", fd, rw, unix.MAP_SHARED, "m")
	wantMaps(t, r, c.pid(), file, File{}, true)
	c.do("close", fd)
	wantMaps(t, r, c.pid(), file, File{}, true)
	c.do("munmap", "m")
	wantMaps(t, r, c.pid(), file, File{}, false)

	// The kernel may show the backing file instead.
	wantMaps(t, r, c.pid(), file, other, true)
	other.Dev++
	wantMaps(t, r, c.pid(), file, other, false)

	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	if got, err := r.MapsWritable(c.pid(), file, other); got || err != nil {
		t.Errorf("a dead process: %t, %v", got, err)
	}
}

// A descriptor that does not say what it is keeps nobody waiting: an epoll instance says
// nothing while the kernel writes its events to a page that the process's own filesystem
// does not give.
func TestOpensStuck(t *testing.T) {
	reading, answer := make(chan struct{}), make(chan struct{})
	path := (&oneFile{t: t, flush: func(uint32) {}, write: func() {}, read: func() {
		reading <- struct{}{}
		<-answer
	}}).mount()
	r := newReader(t)
	c := startChild(t)
	t.Cleanup(func() { close(answer) }) // before the child is waited for
	file := fileOf(t, path)
	fd := c.do("open", unix.O_RDWR, path)
	c.do("mmap", fd, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, "m")
	c.do("poll", "m")
	<-reading
	quickly(t, "Opens", func() {
		if w, _, err := r.Opens(c.pid(), file); w != 1 || err != nil {
			t.Errorf("Opens: %d for writing, %v", w, err)
		}
	})
	// The number of its inode may be that of a file, on another filesystem.
	alike := file
	alike.Also = append(alike.Also, anonymousInode(t))
	quickly(t, "Opens", func() {
		if w, _, err := r.Opens(c.pid(), alike); w != 1 || err != nil {
			t.Errorf("Opens: %d for writing, %v", w, err)
		}
	})
	quickly(t, "IsOutput", func() {
		if r.IsOutput(c.pid(), file) {
			t.Error("the file is no output")
		}
	})
	if n := r.fileQuestions.Hung(); n != 0 {
		t.Errorf("%d threads wait for what may never come", n)
	}
}

// anonymousInode is the number of the inode that all epoll instances have.
func anonymousInode(t *testing.T) uint64 {
	t.Helper()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ep)
	var st unix.Stat_t
	if err := unix.Fstat(ep, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// What a process says of its descriptors comes in parts, and may take its time as a
// whole. A part may not.
func TestFileQuestions(t *testing.T) {
	r := newReader(t)
	r.fileQuestions.Grace = 0
	c := startChild(t)
	n, err := patientlyOfFiles(r, c.pid(), func(a *asking) (n int, _ error) {
		for ; n < 5; n++ {
			time.Sleep(patience.Long / 2)
			a.Answered()
		}
		return n, nil
	})
	if n != 5 || err != nil {
		t.Errorf("in parts: %d, %v", n, err)
	}
	answer := make(chan struct{})
	_, err = patientlyOfFiles(r, c.pid(), func(*asking) (int, error) { <-answer; return 0, nil })
	if err != ErrBusy {
		t.Errorf("without an end: %v", err)
	}
	await(t, "the question hangs", func() bool { return r.fileQuestions.Hung() == 1 })
	if _, _, err := r.Opens(c.pid(), File{Ino: 1}); !errors.Is(err, ErrBusy) {
		t.Errorf("Opens: %v", err)
	}
	if r.AtStart(c.pid(), File{Ino: 1}) || r.IsOutput(c.pid(), File{Ino: 1}) {
		t.Error("what cannot be seen is taken for granted")
	}
	if _, err := r.Process(c.pid()); err != nil {
		t.Errorf("Process: %v", err)
	}
	close(answer)
	await(t, "the answer", func() bool { return r.fileQuestions.Hung() == 0 })
}

// Of a descriptor with many locks not all of them are read.
func TestOpensLocked(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	file, path := tempFile(t)
	c.do("lock", c.do("open", unix.O_RDWR, path), 5000)
	wantOpens(t, r, c.pid(), file, 1, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wantOpens(t, r, c.pid(), file, 1, 0)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 100<<10 {
		t.Errorf("%d bytes are allocated for one descriptor", n)
	}
}
