package proc

import (
	"latchfs/lockmgr/proc/internal/patience"
	"latchfs/lockmgr/proc/internal/procfs"
)

const (
	maxAskedOf = 4  // patient questions about one process
	maxFilesOf = 32 // the same about its descriptors: each of its closes asks
)

// asking is a patient question that is under way.
type asking = patience.Question

// patiently asks something that may block in the kernel, and gives up with
// ErrBusy when it blocks because the process is in execve, or for too long. What
// was asked then goes on by itself, so it must not use what its caller goes on
// to use.
func patiently[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return patience.Ask(r.questions, pid, patience.Short, ask)
}

// stubbornly does the same, but gives a process time to come out of execve.
func stubbornly[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return patience.Ask(r.questions, pid, patience.Long, ask)
}

// patientlyOfFiles does the same for questions about descriptors, which a process in
// execve answers, and one whose memory is locked: those have an account of their own.
func patientlyOfFiles[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return patience.Ask(r.fileQuestions, pid, patience.Long, ask)
}

// inExec reports whether a process is inside execve, which is when the kernel closes
// descriptors with the exec lock held. Its statm, which takes no lock, shows that.
func (r *Reader) inExec(pid int32) bool {
	in := false
	_ = r.withPIDFile(pid, keptStatm, "statm", func(b []byte) error {
		in = procfs.InExec(b)
		return nil
	})
	return in
}
