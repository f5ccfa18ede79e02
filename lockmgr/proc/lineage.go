package proc

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
)

// maxLineage bounds the walk to the first process.
const maxLineage = 256

// Lineage lists the ancestors of a process, nearest first, up to the first
// process of the pid namespace. A process or an ancestor that stays in execve and
// was not seen lately cuts the list short.
//
// The list is shared: not to be changed.
func (r *Reader) Lineage(pid int32) []lockmgr.Ancestor {
	if ancestors, ok := r.keptLineage(pid, func() []lockmgr.Ancestor { return r.lineage(pid) }); ok {
		return ancestors
	}
	return r.lineage(pid)
}

func (r *Reader) lineage(pid int32) []lockmgr.Ancestor {
	chain := r.ancestry(pid)
	if len(chain) == 0 {
		return nil
	}
	ancestors := make([]lockmgr.Ancestor, len(chain)-1)
	for i := range ancestors {
		ancestors[i] = lockmgr.Ancestor{Owner: chain[i+1].leader(), Child: lockmgr.Birth{Tick: chain[i].start, PID: chain[i].tid}}
	}
	return slices.Clip(ancestors)
}

// ancestry is the process itself with its lineage.
func (r *Reader) ancestry(pid int32) []*known {
	chain, err := r.climb(pid, r.remembered)
	if err == nil {
		return chain
	}
	look := func(a *asking) ([]*known, error) {
		return r.climb(pid, func(pid int32) (*known, error) {
			if a.About() != pid {
				if err := a.MoveTo(pid); err != nil {
					return nil, err
				}
			}
			return r.look(pid)
		})
	}
	if chain, err = patiently(r, pid, look); err != ErrBusy {
		return chain
	}
	if chain, err = r.climb(pid, r.everSeen); err == nil {
		return chain
	}
	if longer, err := stubbornly(r, pid, look); err == nil {
		return longer
	}
	return chain
}

// errStale means that the cache has no fresh answer.
var errStale = errors.New("not remembered")

// remembered returns what is known of a process without a look.
func (r *Reader) remembered(pid int32) (*known, error) {
	if k := r.known.get(pid); k != nil && k.fresh() {
		return k, nil
	}
	return nil, errStale
}

// everSeen returns what was known of a process when it was last looked at.
func (r *Reader) everSeen(pid int32) (*known, error) {
	if k := r.known.get(pid); k != nil {
		return k, nil
	}
	return nil, errStale
}

// look returns what is known of a process, after a look if need be.
func (r *Reader) look(pid int32) (*known, error) {
	if k, err := r.remembered(pid); err == nil {
		return k, nil
	}
	st, err := r.stat(pid)
	if err != nil {
		return nil, err
	}
	return r.known.note(pid, &st), nil
}

// climb goes up from parent to parent. It ends early, without an error, where a
// process has gone meanwhile; with an error it returns what it has so far.
func (r *Reader) climb(pid int32, get func(int32) (*known, error)) ([]*known, error) {
	k, err := get(pid)
	if err != nil {
		return nil, procfs.IgnoreGone(err)
	}
	chain := append(make([]*known, 0, 8), k)
	for k.ppid > 0 && len(chain) <= maxLineage {
		parent, err := get(k.ppid)
		if err != nil {
			return chain, procfs.IgnoreGone(err)
		}
		// A parent is never younger: where it seems so, the pid has been given
		// out anew between the two looks.
		if parent.start > k.start {
			break
		}
		chain = append(chain, parent)
		k = parent
	}
	return chain, nil
}

// Now is the present moment. Every process that was forked before the call has
// a birth that is not after it, every one forked later a birth that is.
func (r *Reader) Now() lockmgr.Birth {
	pid, err := r.root.LastPID()
	if err != nil {
		panic("proc: loadavg cannot be read any more: " + err.Error())
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("proc: no boot time clock: " + err.Error())
	}
	return lockmgr.Birth{Tick: uint64(ts.Nano()) / (1e9 / procfs.HZ), PID: pid}
}
