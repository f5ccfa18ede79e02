package proc

import (
	"bytes"
	"slices"
	"sync/atomic"

	"latchfs/lockmgr"
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
	im := image{told: r.forks.Image(o.PID)}
	if im.told != 0 {
		if value, ok := r.environs.get(o, im, names); ok {
			return value
		}
	}
	names = slices.Clone(names)
	value, _ := patiently(r, o.PID, func(*asking) (string, error) { return r.envOf(o, im, names) })
	return value
}

// envOf blocks while the process is in execve. What it reads is not older than the image:
// a program that comes in between is another one for the next question.
func (r *Reader) envOf(o lockmgr.Owner, im image, names []string) (string, error) {
	if im.told == 0 {
		st, err := r.stat(o.PID)
		if err != nil {
			return "", err
		}
		im.faults = st.Faults
		if value, ok := r.environs.get(o, im, names); ok && st.Runs(o.Start) {
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
	r.environs.put(o, im, names, value)
	return value, nil
}

// image tells the programs apart that a process runs one after the other. The addresses
// in its stat do not: without their randomization (setarch -R) a program that is started
// again with arguments and variables of the same length has the same ones.
type image struct {
	// told is the number that forks has for the program, 0 where the kernel does not tell.
	told uint64
	// faults are the page faults of the process so far. A program that has just been
	// started has no page, and comes to its first instruction by a fault: while the count
	// is the same, no program was started. Faults of other reasons make us read again.
	faults uint64
}

// environs remembers what was asked of environments. It is of fixed size: a process has
// one slot, which another one may take.
type environs [256]atomic.Pointer[environ]

const (
	// maxAnswers is how many different questions are remembered of one program.
	maxAnswers = 4
	// maxAnswer is how long an answer is that is remembered.
	maxAnswer = 256
)

// environ is what is remembered of one program. The value is immutable.
type environ struct {
	o       lockmgr.Owner
	image   image
	answers []envAnswer
}

type envAnswer struct {
	names []string
	value string
}

func (es *environs) slot(o lockmgr.Owner) *atomic.Pointer[environ] {
	return &es[uint32(o.PID)%uint32(len(es))]
}

func (es *environs) get(o lockmgr.Owner, im image, names []string) (value string, ok bool) {
	e := es.slot(o).Load()
	if e == nil || e.o != o || e.image != im {
		return "", false
	}
	for _, a := range e.answers {
		if slices.Equal(a.names, names) {
			return a.value, true
		}
	}
	return "", false
}

// put remembers an answer. Of two that come at the same moment one may be lost.
func (es *environs) put(o lockmgr.Owner, im image, names []string, value string) {
	if len(value) > maxAnswer {
		return
	}
	next := &environ{o: o, image: im, answers: []envAnswer{{names, value}}}
	if e := es.slot(o).Load(); e != nil && e.o == o && e.image == im {
		next.answers = append(next.answers, e.answers[:min(len(e.answers), maxAnswers-1)]...)
	}
	es.slot(o).Store(next)
}
