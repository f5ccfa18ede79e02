package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// fileOps work on descriptors.
var fileOps = map[string]handler{
	"open": func(_ *process, r wire.Request) (wire.Result, error) {
		return count(unix.Open(r.Path, r.Flags, r.Mode))
	},
	"openat": func(_ *process, r wire.Request) (wire.Result, error) {
		return count(unix.Openat(r.FD, r.Path, r.Flags, r.Mode))
	},
	"close": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Close(r.FD)) },
	"dup":   func(_ *process, r wire.Request) (wire.Result, error) { return count(unix.Dup(r.FD)) },
	"read": func(_ *process, r wire.Request) (wire.Result, error) {
		buf := make([]byte, r.Len)
		n, err := unix.Read(r.FD, buf)
		return wire.Result{N: int64(n), Data: buf[:max(n, 0)]}, err
	},
	"pread": func(_ *process, r wire.Request) (wire.Result, error) {
		buf := make([]byte, r.Len)
		n, err := unix.Pread(r.FD, buf, r.Off)
		return wire.Result{N: int64(n), Data: buf[:max(n, 0)]}, err
	},
	"write": func(_ *process, r wire.Request) (wire.Result, error) { return count(unix.Write(r.FD, r.Data)) },
	"pwrite": func(_ *process, r wire.Request) (wire.Result, error) {
		return count(unix.Pwrite(r.FD, r.Data, r.Off))
	},
	"seek": func(_ *process, r wire.Request) (wire.Result, error) {
		n, err := unix.Seek(r.FD, r.Off, r.Kind)
		return wire.Result{N: n}, err
	},
	"fsync":     func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Fsync(r.FD)) },
	"ftruncate": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Ftruncate(r.FD, r.Len)) },
	"fallocate": func(_ *process, r wire.Request) (wire.Result, error) {
		return nothing(unix.Fallocate(r.FD, uint32(r.Flags), r.Off, r.Len))
	},
	"fchmod": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Fchmod(r.FD, r.Mode)) },
	"fstat": func(_ *process, r wire.Request) (wire.Result, error) {
		var st unix.Stat_t
		err := unix.Fstat(r.FD, &st)
		return wire.Result{Stat: statOf(&st)}, err
	},
	"copy_file_range": func(_ *process, r wire.Request) (wire.Result, error) {
		return count(unix.CopyFileRange(r.FD, nil, r.FD2, nil, int(r.Len), 0))
	},
	"readall": readAll, "writeall": writeAll,
}

// readAll opens, reads to the end and closes, as cat does. The descriptor's own
// fstat before the first read comes with it, for the size promise.
func readAll(_ *process, r wire.Request) (wire.Result, error) {
	fd, err := unix.Open(r.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return wire.Result{}, err
	}
	f := os.NewFile(uintptr(fd), r.Path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return wire.Result{}, err
	}
	data, err := io.ReadAll(f)
	return wire.Result{N: int64(len(data)), Data: data, Stat: statOf(&st)}, err
}

// writeAll opens with the given flags, writes everything and closes, as a plain
// save does; the first error wins.
func writeAll(_ *process, r wire.Request) (wire.Result, error) {
	flags := r.Flags
	if flags == 0 {
		flags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC
	}
	fd, err := unix.Open(r.Path, flags, r.Mode)
	if err != nil {
		return wire.Result{}, err
	}
	for rest := r.Data; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			unix.Close(fd)
			return wire.Result{}, err
		}
		rest = rest[n:]
	}
	return nothing(unix.Close(fd))
}

func statOf(st *unix.Stat_t) *wire.Stat {
	return &wire.Stat{
		Dev: uint64(st.Dev), Ino: st.Ino, Mode: st.Mode, Nlink: uint64(st.Nlink),
		UID: st.Uid, GID: st.Gid, Size: st.Size,
		MtimeNs: st.Mtim.Nano(), CtmNs: st.Ctim.Nano(),
	}
}
