package main

import (
	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// lockOps are flock(2) and the two families of fcntl(2) locks.
var lockOps = map[string]handler{
	"flock":     func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Flock(r.FD, r.Kind)) },
	"setlk":     fcntlLock(unix.F_SETLK),
	"setlkw":    fcntlLock(unix.F_SETLKW),
	"getlk":     fcntlLock(unix.F_GETLK),
	"ofd-setlk": fcntlLock(unix.F_OFD_SETLK), "ofd-setlkw": fcntlLock(unix.F_OFD_SETLKW),
	"ofd-getlk": fcntlLock(unix.F_OFD_GETLK),
}

func fcntlLock(cmd int) handler {
	return func(_ *process, r wire.Request) (wire.Result, error) {
		lk := unix.Flock_t{Type: int16(r.Kind), Whence: unix.SEEK_SET, Start: r.Off, Len: r.Len}
		err := unix.FcntlFlock(uintptr(r.FD), cmd, &lk)
		return wire.Result{Lock: &wire.Lock{Type: lk.Type, Start: lk.Start, Len: lk.Len, PID: lk.Pid}}, err
	}
}
