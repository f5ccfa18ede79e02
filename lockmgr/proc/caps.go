package proc

import "golang.org/x/sys/unix"

// HasCap reports whether a thread has a capability in effect (capabilities(7)),
// and has it in the user namespace of the caller of this package: anybody can
// have all of them in a namespace of their own.
func (r *Reader) HasCap(tid uint32, capability int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(tid)}
	var data [2]unix.CapUserData
	if tid == 0 || capability < 0 || capability >= 32*len(data) {
		return false
	}
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	if data[capability/32].Effective&(1<<(capability%32)) == 0 {
		return false
	}
	ns, err := r.link(pidPath(tid, "ns/user"))
	return err == nil && ns == r.userNS
}
