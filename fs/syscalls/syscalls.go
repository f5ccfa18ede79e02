// Package syscalls says what a system call asks for: what the kernel's request tells the
// filesystem is the same for many. It looks at the number of the call and at its plain
// arguments, never into the memory of the process. It is pure.
//
// The calls that newer architectures do not have are in a file of their own.
package syscalls

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc"
)

// StatsByName reports whether a call asks for the attributes of a path.
func StatsByName(call proc.Call) bool {
	switch call.Nr {
	case unix.SYS_NEWFSTATAT:
		return call.Args[3]&unix.AT_EMPTY_PATH == 0
	case unix.SYS_STATX:
		return call.Args[2]&unix.AT_EMPTY_PATH == 0
	}
	return slices.Contains(oldStats, call.Nr)
}

// ReadsXattrsByName reports whether a call asks for the extended attributes of a path.
func ReadsXattrsByName(call proc.Call) bool {
	switch call.Nr {
	case unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR:
		return true
	}
	return false
}

// Creates reports whether a call may be one that creates the file which it opens.
func Creates(call proc.Call) bool {
	at, old := oldOpens[call.Nr]
	switch {
	case call.Nr == unix.SYS_OPENAT:
		at = 2
	case !old || at < 0:
		return true
	}
	return call.Args[at]&unix.O_CREAT != 0
}

// Removes reports whether a call removes the name of a file.
func Removes(call proc.Call) bool {
	if call.Nr == unix.SYS_UNLINKAT {
		return call.Args[2]&unix.AT_REMOVEDIR == 0
	}
	return slices.Contains(oldUnlinks, call.Nr)
}

// SetsTimes reports whether a call sets the times of the file at a path.
func SetsTimes(call proc.Call) bool {
	if call.Nr == unix.SYS_UTIMENSAT {
		return call.Args[1] != 0
	}
	return slices.Contains(oldUtimes, call.Nr)
}

var setters = slices.Concat(oldChowns, oldSetters, []int{
	unix.SYS_FCHMODAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
})

// SetsByName reports whether a call changes the mode, the owner, the times or an extended attribute
// of the file at a path.
func SetsByName(call proc.Call) bool {
	switch call.Nr {
	case unix.SYS_UTIMENSAT:
		return call.Args[1] != 0 && call.Args[3]&unix.AT_EMPTY_PATH == 0
	case unix.SYS_FCHMODAT2:
		return call.Args[3]&unix.AT_EMPTY_PATH == 0
	case unix.SYS_FCHOWNAT:
		return call.Args[4]&unix.AT_EMPTY_PATH == 0
	}
	return slices.Contains(setters, call.Nr)
}

// IsRepeated reports whether the kernel repeats a call after ESTALE. It does for operations
// on paths, not for those on descriptors, nor for the bind of a socket.
func IsRepeated(call proc.Call) bool {
	switch call.Nr {
	case unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FTRUNCATE, unix.SYS_FSETXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_BIND:
		return false
	}
	return true
}

var writes = []int{
	unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2,
	unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_COPY_FILE_RANGE,
}

// Writes reports whether a call writes a file.
func Writes(call proc.Call) bool { return slices.Contains(writes, call.Nr) }

var chowns = append(oldChowns, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT)

// Chowns reports whether a call changes a file's owner.
func Chowns(call proc.Call) bool { return slices.Contains(chowns, call.Nr) }

// WritesAtPlace reports whether a call writes at the place that it names also where the
// descriptor appends (RWF_NOAPPEND of pwritev2(2)).
func WritesAtPlace(call proc.Call) bool {
	return call.Nr == unix.SYS_PWRITEV2 && call.Args[5]&unix.RWF_NOAPPEND != 0
}
