package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// Given is a path that a thread has given to a system call. Dev and Ino are of the
// directory that it is relative to, zero where it is not or that is not known.
type Given struct {
	Path     string
	Dev, Ino uint64
}

// GivenPath returns the path that a thread has given to the system call in which it waits,
// one that opens a file (open(2), openat2(2)). It is read out of the process's memory
// (process_vm_readv(2)), and is the word of the process: another thread of it may have
// changed it since. It is not ok if the thread is in another system call, or may not be
// inspected.
func (r *Reader) GivenPath(tid uint32) (g Given, ok bool) {
	call, ok := r.Syscall(tid)
	if !ok {
		return Given{}, false
	}
	arg, ok := pathArg[call.Nr]
	if !ok {
		return Given{}, false
	}
	// The memory may be of a file whose filesystem does not answer.
	given, err := patiently(r, int32(tid), func(*asking) ([]byte, error) {
		return stringAt(int(tid), uintptr(call.Args[arg]))
	})
	if err != nil {
		return Given{}, false
	}
	g.Path = string(given)
	if !strings.HasPrefix(g.Path, "/") {
		base := "cwd"
		if fd := int32(call.Args[0]); arg == 1 && fd >= 0 {
			base = "fd/" + strconv.Itoa(int(fd))
		}
		g.Dev, g.Ino = r.directory(tid, base)
	}
	return g, true
}

// directory is the inode to which a magic link of /proc/PID leads, as far as the kernel
// knows it: its filesystem, which may be the one that asks, is not asked.
func (r *Reader) directory(tid uint32, link string) (dev, ino uint64) {
	st, err := patiently(r, int32(tid), func(*asking) (st unix.Statx_t, err error) {
		err = unix.Statx(r.root.Dir(), procfs.PIDPath(tid, link), unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
		return st, err
	})
	if err != nil {
		return 0, 0
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino
}

var errNoPath = errors.New("not a path")

// stringAt reads a path that ends with a zero byte. No read goes past the end of a page
// in which the path might end.
func stringAt(pid int, addr uintptr) ([]byte, error) {
	page := uintptr(os.Getpagesize())
	var path []byte
	for len(path) < unix.PathMax {
		piece := make([]byte, page-addr%page)
		local := unix.Iovec{Base: &piece[0]}
		local.SetLen(len(piece))
		n, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: addr, Len: len(piece)}}, 0)
		if err != nil {
			return nil, os.NewSyscallError("process_vm_readv", err)
		}
		if end := bytes.IndexByte(piece[:n], 0); end >= 0 {
			return append(path, piece[:end]...), nil
		}
		if n == 0 {
			break
		}
		path = append(path, piece[:n]...)
		addr += uintptr(n)
	}
	return nil, errNoPath
}
