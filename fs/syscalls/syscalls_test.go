package syscalls

import (
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc"
)

// call is a system call with arguments.
func call(nr int, args ...uint64) proc.Call {
	c := proc.Call{Nr: nr}
	copy(c.Args[:], args)
	return c
}

// Each predicate is asked of the calls that mean something for one of them.
func TestCalls(t *testing.T) {
	const (
		stats = 1 << iota
		creates
		repeated
		writes
		chowns
		atPlace
		removes
		times
		sets
		xattrs
	)
	calls := map[string]struct {
		of   proc.Call
		want int
	}{
		"stat":                {call(unix.SYS_NEWFSTATAT, 3, 1, 2, unix.AT_SYMLINK_NOFOLLOW), stats | creates | repeated},
		"fstat":               {call(unix.SYS_NEWFSTATAT, 3, 1, 2, unix.AT_EMPTY_PATH), creates | repeated},
		"statx":               {call(unix.SYS_STATX, 3, 1, unix.AT_STATX_DONT_SYNC, unix.AT_EMPTY_PATH), stats | creates | repeated},
		"statx of descriptor": {call(unix.SYS_STATX, 3, 1, unix.AT_EMPTY_PATH), creates | repeated},
		"openat":              {call(unix.SYS_OPENAT, 3, 1, unix.O_RDWR|unix.O_TRUNC, unix.O_CREAT), repeated},
		"openat that creates": {call(unix.SYS_OPENAT, 3, 1, unix.O_RDWR|unix.O_CREAT), creates | repeated},
		"openat2":             {call(unix.SYS_OPENAT2, 3, 1, 2), creates | repeated}, // its flags are in memory
		"fchmod":              {call(unix.SYS_FCHMOD), creates},
		"fchmodat":            {call(unix.SYS_FCHMODAT), creates | repeated | sets},
		"fchown":              {call(unix.SYS_FCHOWN), creates | chowns},
		"fchownat":            {call(unix.SYS_FCHOWNAT), creates | repeated | chowns | sets},
		"ftruncate":           {call(unix.SYS_FTRUNCATE), creates},
		"truncate":            {call(unix.SYS_TRUNCATE), creates | repeated},
		"fsetxattr":           {call(unix.SYS_FSETXATTR), creates},
		"fremovexattr":        {call(unix.SYS_FREMOVEXATTR), creates},
		"setxattr":            {call(unix.SYS_SETXATTR), creates | repeated | sets},
		"getxattr":            {call(unix.SYS_GETXATTR), creates | repeated | xattrs},
		"llistxattr":          {call(unix.SYS_LLISTXATTR), creates | repeated | xattrs},
		"fgetxattr":           {call(unix.SYS_FGETXATTR), creates | repeated},
		"unlinkat":            {call(unix.SYS_UNLINKAT, 3, 1), creates | repeated | removes},
		"unlinkat, directory": {call(unix.SYS_UNLINKAT, 3, 1, unix.AT_REMOVEDIR), creates | repeated},
		"utimensat":           {call(unix.SYS_UTIMENSAT, 3, 1), creates | repeated | times | sets},
		"fchownat, its file":  {call(unix.SYS_FCHOWNAT, 3, 1, 0, 0, unix.AT_EMPTY_PATH), creates | repeated | chowns},
		"fchmodat2":           {call(unix.SYS_FCHMODAT2, 3, 1), creates | repeated | sets},
		"removexattr":         {call(unix.SYS_REMOVEXATTR), creates | repeated | sets},
		"futimens":            {call(unix.SYS_UTIMENSAT, 3, 0), creates | repeated},
		"bind":                {call(unix.SYS_BIND), creates},
		"read":                {call(unix.SYS_READ), creates | repeated},
		"write":               {call(unix.SYS_WRITE), creates | repeated | writes},
		"pwrite":              {call(unix.SYS_PWRITE64, 0, 0, 0, 0, 0, unix.RWF_NOAPPEND), creates | repeated | writes},
		"writev":              {call(unix.SYS_WRITEV), creates | repeated | writes},
		"pwritev":             {call(unix.SYS_PWRITEV), creates | repeated | writes},
		"pwritev2":            {call(unix.SYS_PWRITEV2, 0, 0, 0, 0, unix.RWF_NOAPPEND, unix.RWF_APPEND), creates | repeated | writes},
		"pwritev2 at a place": {call(unix.SYS_PWRITEV2, 0, 0, 0, 0, 0, unix.RWF_NOAPPEND), creates | repeated | writes | atPlace},
		"sendfile":            {call(unix.SYS_SENDFILE), creates | repeated | writes},
		"splice":              {call(unix.SYS_SPLICE), creates | repeated | writes},
		"copy_file_range":     {call(unix.SYS_COPY_FILE_RANGE), creates | repeated | writes},
	}
	for name, c := range calls {
		for bit, p := range map[int]func(proc.Call) bool{
			stats: StatsByName, creates: Creates, repeated: IsRepeated, writes: Writes, chowns: Chowns, atPlace: WritesAtPlace, removes: Removes, times: SetsTimes, sets: SetsByName, xattrs: ReadsXattrsByName,
		} {
			if got := p(c.of); got != (c.want&bit != 0) {
				t.Errorf("%s, %#b: %v", name, bit, got)
			}
		}
	}
}
