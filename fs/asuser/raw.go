package asuser

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions of package syscall and unix that set groups change all threads
// of the process. These change the calling thread alone.

func setgroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); e != 0 {
		return e
	}
	return nil
}

// capabilities are the three sets of a thread (capabilities(7)).
type capabilities [2]unix.CapUserData

func readCapabilities() (c capabilities, err error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	err = unix.Capget(&hdr, &c[0])
	return c, err
}

// without is c with these capabilities not effective. They stay permitted: that
// is how they come back.
func (c capabilities) without(caps ...int) capabilities {
	for _, n := range caps {
		c[n/32].Effective &^= 1 << (n % 32)
	}
	return c
}

func (c capabilities) set() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&hdr, &c[0])
}
