//go:build !amd64

package proc

import "golang.org/x/sys/unix"

// pathArg is which argument of a system call is the path.
var pathArg = map[int]int{unix.SYS_OPENAT: 1, unix.SYS_OPENAT2: 1}
