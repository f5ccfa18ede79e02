package proc

import (
	"bytes"
	"slices"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/environs"
	"latchfs/lockmgr/proc/internal/procfs"
)

// maxEnviron bounds what is read of an environment, in bytes.
const maxEnviron = 256 << 10

// FirstEnv returns the value of the first of some variables that is set and not
// empty in the environment that a process was started with, or "". What changed
// in it since, the process alone knows. (In execve there is none. Variables
// behind the first 256 KiB are not seen.)
func (r *Reader) FirstEnv(pid int32, names []string) string {
	if len(names) == 0 {
		return ""
	}
	value, _ := patiently(r, pid, func(*asking) (string, error) { return r.firstEnv(pid, names) })
	return value
}

// firstEnv blocks while the process is in execve.
func (r *Reader) firstEnv(pid int32, names []string) (string, error) {
	environ, err := r.root.ReadUpTo(procfs.PIDPath(pid, "environ"), maxEnviron)
	if err != nil {
		return "", err
	}
	if len(environ) == maxEnviron { // half a value is worse than none
		environ = environ[:bytes.LastIndexByte(environ, 0)+1]
	}
	for _, name := range names {
		if value := procfs.Variable(environ, name); value != "" {
			return value, nil
		}
	}
	return "", nil
}

// EnvOf is FirstEnv of a process that is this one and not another one that has got its
// pid since. The answer is remembered until the process calls execve(2): where the kernel
// tells of that (FollowForks), a second question does not look at the process, so that it
// is also answered for a process in execve, with the program that gives way, and for one
// that has ended.
func (r *Reader) EnvOf(o lockmgr.Owner, names []string) string {
	if len(names) == 0 || o.PID <= 0 {
		return ""
	}
	im := environs.Image{Told: r.forks.Image(o.PID)}
	if im.Told != 0 {
		if value, ok := r.environs.Get(o, im, names); ok {
			return value
		}
	}
	names = slices.Clone(names)
	value, _ := patiently(r, o.PID, func(*asking) (string, error) { return r.envOf(o, im, names) })
	return value
}

// envOf blocks while the process is in execve. What it reads is not older than the image:
// a program that comes in between is another one for the next question.
func (r *Reader) envOf(o lockmgr.Owner, im environs.Image, names []string) (string, error) {
	if im.Told == 0 {
		st, err := r.stat(o.PID)
		if err != nil {
			return "", err
		}
		im.Faults = st.Faults
		if value, ok := r.environs.Get(o, im, names); ok && st.Runs(o.Start) {
			return value, nil
		}
	}
	value, err := r.firstEnv(o.PID, names)
	if err != nil {
		return "", err
	}
	if st, err := r.stat(o.PID); err != nil || !st.Runs(o.Start) {
		return "", err // it was another one's
	}
	r.environs.Put(o, im, names, value)
	return value, nil
}
