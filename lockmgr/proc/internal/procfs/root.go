package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrGone means that there is no such process or thread any more.
var ErrGone = errors.New("process is gone")

// Root is an open procfs, which stays open as long as somebody uses it. Paths are below it.
type Root struct {
	dir     int
	loadavg int
	uses    atomic.Int32 // of the descriptors
}

// Open opens a procfs for its first user, who releases it. It must belong to the caller's
// own pid namespace, and its kernel must be 5.14 or newer: the error says so else.
func Open(path string) (*Root, error) {
	r := &Root{dir: -1, loadavg: -1}
	r.uses.Store(1)
	if err := r.open(path); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

func (r *Root) open(path string) error {
	var err error
	if r.dir, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if self, err := r.Link("self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return errors.New("is not the procfs of this pid namespace")
	}
	if r.loadavg, err = unix.Openat(r.dir, "loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("loadavg: %w", err)
	}
	if _, err := r.LastPID(); err != nil {
		return err
	}
	info, err := r.ReadAll("self/fdinfo/" + strconv.Itoa(r.dir))
	if err != nil {
		return err
	}
	if _, ok := Field(info, "ino"); !ok {
		return errors.New("fdinfo has no inode numbers: Linux 5.14 or newer is needed")
	}
	return nil
}

// Retain adds a use of the descriptors, by somebody who has one already.
func (r *Root) Retain() { r.uses.Add(1) }

// Release ends one use of the descriptors. The last one closes them: a question that got
// stuck may outlive everything else.
func (r *Root) Release() {
	if r.uses.Add(-1) > 0 {
		return
	}
	for _, fd := range []int{r.dir, r.loadavg} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Uses is how many uses have not ended, for tests of whoever retains it.
func (r *Root) Uses() int { return int(r.uses.Load()) }

// Dir is the descriptor of the directory (O_PATH), for system calls that take one.
func (r *Root) Dir() int { return r.dir }

// LastPID is the pid given out last, the end of /proc/loadavg.
func (r *Root) LastPID() (int32, error) {
	var buf [128]byte
	n, err := unix.Pread(r.loadavg, buf[:], 0)
	if err != nil {
		return 0, err
	}
	line := bytes.TrimRight(buf[:n], "\n")
	pid, err := strconv.ParseInt(string(line[bytes.LastIndexByte(line, ' ')+1:]), 10, 32)
	if err != nil {
		return 0, errors.New("malformed loadavg")
	}
	return int32(pid), nil
}

// User is the effective user of a process, root if that cannot be seen. Neither the
// memory nor the exec lock of the process is needed for it.
func (r *Root) User(pid int32) (uid uint32) {
	_ = r.WithFile(PIDPath(pid, "status"), func(b []byte) error {
		uid = ParseUID(b)
		return nil
	})
	return uid
}

// PIDPath is the path of a process's file below /proc.
func PIDPath[T int32 | uint32](pid T, file string) string {
	var b [64]byte
	s := strconv.AppendInt(b[:0], int64(pid), 10)
	s = append(s, '/')
	return string(append(s, file...))
}

// TaskPath is the path of a thread's file below /proc.
func TaskPath(pid, tid int32, file string) string {
	return PIDPath(pid, "task/") + PIDPath(tid, file)
}
