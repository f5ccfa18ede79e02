package proc

import (
	"strconv"
	"strings"

	"latchfs/lockmgr/proc/internal/procfs"
)

// IDs lists the ids of a process (proc(5), NSpid): first the one in our own pid namespace,
// last the one in its own, by which the process itself and those beside it know it. An
// ancestor with as many ids as the process is in the same namespace, because a process gets
// only into namespaces below its parent's. It is empty if the process has gone.
func (r *Reader) IDs(pid int32) (ids []int32) {
	_ = r.root.WithFile(procfs.PIDPath(pid, "status"), func(status []byte) error {
		line, _ := procfs.Field(status, "NSpid")
		for _, s := range strings.Fields(line) {
			id, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				ids = nil
				return nil
			}
			ids = append(ids, int32(id))
		}
		return nil
	})
	return ids
}
