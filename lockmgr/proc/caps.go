package proc

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// HasCap reports whether a thread has a capability in effect (capabilities(7)),
// and has it over the same users as the caller of this package: in a user
// namespace of their own all capabilities are anybody's, but they count for the
// users mapped there only.
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
	users, err := r.idMaps(procfs.PIDPath(tid, ""))
	return err == nil && users == r.users
}

// Groups returns the supplementary groups of a thread, as our own user namespace
// counts them, and whether they could be read.
func (r *Reader) Groups(tid uint32) (groups []uint32, known bool) {
	err := r.root.WithFile(procfs.PIDPath(tid, "status"), func(status []byte) error {
		line, ok := procfs.Field(status, "Groups")
		if !ok {
			return ErrGone
		}
		for _, s := range strings.Fields(line) {
			if id, err := strconv.ParseUint(s, 10, 32); err == nil {
				groups = append(groups, uint32(id))
			}
		}
		return nil
	})
	return groups, err == nil
}

// idMaps reads the user and group maps of a process (user_namespaces(7)). They
// tell namespaces apart without the locks that their links take.
func (r *Reader) idMaps(dir string) (maps [2]string, err error) {
	for i, name := range []string{"uid_map", "gid_map"} {
		content, err := r.root.ReadAll(dir + name)
		if err != nil {
			return maps, err
		}
		maps[i] = string(content)
	}
	return maps, nil
}
