package main

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// pathOps work on names.
var pathOps = map[string]handler{
	"rename": func(_ *process, r wire.Request) (wire.Result, error) {
		return nothing(unix.Renameat2(unix.AT_FDCWD, r.Path, unix.AT_FDCWD, r.To, uint(r.Flags)))
	},
	"unlink":  func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Unlink(r.Path)) },
	"rmdir":   func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Rmdir(r.Path)) },
	"mkdir":   func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Mkdir(r.Path, r.Mode)) },
	"link":    func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Link(r.Path, r.To)) },
	"symlink": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Symlink(r.To, r.Path)) },
	"mknod": func(_ *process, r wire.Request) (wire.Result, error) {
		return nothing(unix.Mknod(r.Path, r.Mode, 0))
	},
	"chmod": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Chmod(r.Path, r.Mode)) },
	"chown": func(_ *process, r wire.Request) (wire.Result, error) {
		return nothing(unix.Chown(r.Path, r.UID, r.GID))
	},
	"truncate": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Truncate(r.Path, r.Len)) },
	"utimens": func(_ *process, r wire.Request) (wire.Result, error) {
		ts := []unix.Timespec{unix.NsecToTimespec(r.Off), unix.NsecToTimespec(r.Len)}
		return nothing(unix.UtimesNanoAt(unix.AT_FDCWD, r.Path, ts, 0))
	},
	"setxattr": func(_ *process, r wire.Request) (wire.Result, error) {
		return nothing(unix.Setxattr(r.Path, r.To, r.Data, r.Flags))
	},
	"getxattr": func(_ *process, r wire.Request) (wire.Result, error) {
		buf := make([]byte, 64<<10)
		n, err := unix.Getxattr(r.Path, r.To, buf)
		return wire.Result{Data: buf[:max(n, 0)]}, err
	},
	"stat": func(_ *process, r wire.Request) (wire.Result, error) {
		var st unix.Stat_t
		err := unix.Stat(r.Path, &st)
		return wire.Result{Stat: statOf(&st)}, err
	},
	"lstat": func(_ *process, r wire.Request) (wire.Result, error) {
		var st unix.Stat_t
		err := unix.Lstat(r.Path, &st)
		return wire.Result{Stat: statOf(&st)}, err
	},
	"readlink": func(_ *process, r wire.Request) (wire.Result, error) {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlink(r.Path, buf)
		return wire.Result{Data: buf[:max(n, 0)]}, err
	},
	"list": func(_ *process, r wire.Request) (wire.Result, error) {
		entries, err := os.ReadDir(r.Path)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return wire.Result{Names: names}, err
	},
	"chdir": func(_ *process, r wire.Request) (wire.Result, error) { return nothing(unix.Chdir(r.Path)) },
}
