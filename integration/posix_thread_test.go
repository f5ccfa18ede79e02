package integration

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// privateThreads are idle threads by the user they run as. They never end: a
// child started by a thread that ends gets its parent-death signal, and the
// daemon under test is such a child.
var privateThreads struct {
	mu   sync.Mutex
	idle map[int][]chan func()
}

// onPrivateThread runs f on a thread that shares neither working directory nor
// umask with the rest of the process and runs as uid. One that hangs is not
// used again.
func onPrivateThread(uid int, f func()) {
	p := &privateThreads
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle := p.idle[uid]; len(idle) > 0 {
		p.idle[uid] = idle[:len(idle)-1]
		idle[len(idle)-1] <- f
		return
	}
	work := make(chan func(), 1)
	work <- f
	go servePrivately(uid, work)
}

func servePrivately(uid int, work chan func()) {
	runtime.LockOSThread()
	if err := makePrivate(uid); err != nil {
		panic(fmt.Sprintf("a thread for uid %d: %v", uid, err))
	}
	for f := range work {
		f()
		p := &privateThreads
		p.mu.Lock()
		if p.idle == nil {
			p.idle = map[int][]chan func(){}
		}
		p.idle[uid] = append(p.idle[uid], work)
		p.mu.Unlock()
	}
}

// makePrivate makes this thread one that runs as uid with nothing shared.
func makePrivate(uid int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if uid == unix.Geteuid() {
		return nil
	}
	if err := threadGroups(nil); err != nil {
		return err
	}
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, e := unix.RawSyscall(call, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			return e
		}
	}
	return nil
}

// threadIDs sets the effective id of this thread alone; the wrappers of
// package syscall would change the whole process.
func threadIDs(call uintptr, id int) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(call, keep, uintptr(id), keep); e != 0 {
		return e
	}
	return nil
}

// threadGroups sets the supplementary groups of this thread alone.
func threadGroups(groups []int) error {
	gids := make([]uint32, len(groups)+1) // never empty, so that there is an address
	for i, g := range groups {
		gids[i] = uint32(g)
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&gids[0])), 0)
	if e != 0 {
		return e
	}
	return nil
}
