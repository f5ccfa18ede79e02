package proc

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// maxLineage bounds the walk to the first process.
const maxLineage = 256

type lineageEntry struct {
	pid       int32
	start     uint64
	ancestors []lockmgr.Ancestor
	seen      time.Duration
}

// Lineage lists the ancestors of a process, nearest first, up to the first
// process of the pid namespace. The slice is shared and must not be changed.
func (r *Reader) Lineage(pid int32) []lockmgr.Ancestor {
	_, ancestors, _ := r.lineage(pid, maxLineage)
	return ancestors
}

// lineage returns the birth of a process and its ancestors, at most limit.
func (r *Reader) lineage(pid int32, limit int) (uint64, []lockmgr.Ancestor, error) {
	if e := r.lineages.get(pid); e != nil && e.pid == pid && now()-e.seen < trustFor {
		return e.start, e.ancestors, nil
	}
	st, err := r.stat(pid)
	if err != nil {
		return 0, nil, err
	}
	e := &lineageEntry{pid: pid, start: st.start, seen: now()}
	if st.ppid > 0 && limit > 0 {
		start, above, err := r.lineage(st.ppid, limit-1)
		// A parent is never younger: where it seems so, the pid has been given
		// out anew between the two looks.
		if err == nil && start <= st.start {
			parent := lockmgr.Ancestor{
				Owner: lockmgr.Owner{PID: st.ppid, Start: start},
				Child: lockmgr.Birth{Tick: st.start, PID: pid},
			}
			e.ancestors = append(make([]lockmgr.Ancestor, 0, 1+len(above)), parent)
			e.ancestors = append(e.ancestors, above...)
		}
	}
	r.lineages.put(pid, e)
	return e.start, e.ancestors, nil
}

// userHZ is the unit of times in /proc, USER_HZ, on every architecture that Go
// runs on.
const userHZ = 100

// Now is the present moment. Every process that was forked before the call has
// a birth that is not after it, every one forked later a birth that is.
func (r *Reader) Now() lockmgr.Birth {
	pid, err := r.lastPID()
	if err != nil {
		panic("proc: loadavg cannot be read any more: " + err.Error())
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("proc: no boot time clock: " + err.Error())
	}
	return lockmgr.Birth{Tick: uint64(ts.Nano()) / (1e9 / userHZ), PID: pid}
}

// lastPID is the pid given out last, the end of /proc/loadavg.
func (r *Reader) lastPID() (int32, error) {
	var buf [128]byte
	n, err := unix.Pread(r.loadavg, buf[:], 0)
	if err != nil {
		return 0, err
	}
	line := bytes.TrimRight(buf[:n], "\n")
	pid, err := strconv.ParseInt(string(line[bytes.LastIndexByte(line, ' ')+1:]), 10, 32)
	if err != nil {
		return 0, errors.New("malformed loadavg")
	}
	return int32(pid), nil
}
