package fs

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// otherNamesJudgeRecords is judgesRecords for the further names of a file.
func (f *FS) otherNamesJudgeRecords(n *inode) bool {
	for _, path := range f.otherPaths(n) {
		if !judgesRecords(f.validation(path)) {
			return false
		}
	}
	return true
}

// maxOpenLine is how long an unfinished last line may be that is judged together
// with what is appended to it.
const maxOpenLine = 1 << 20

// judgesLines reports whether each line is judged. Half of one is not shown to
// anybody then: it waits for its end, or the end of its writer.
func (a *appender) judgesLines() bool {
	v := a.f.validation(a.f.nodePath(a.h.n))
	return v != nil && len(v.Formats) > 0
}

// lineGoesOn reports whether a close may leave an unfinished line, and nothing
// else, for a later one: a shell that redirects one command closes a copy of its
// descriptor.
func (a *appender) lineGoesOn(c *caller) bool {
	a.mu.Lock()
	unfinished := len(a.buf) > 0 && a.due == 0 && !a.busy && a.failed == 0
	opener := a.c.owner.PID
	a.mu.Unlock()
	if !unfinished || !a.judgesLines() {
		return false
	}
	file := a.f.procFile(a.h.n)
	for _, pid := range []int32{c.owner.PID, opener} {
		if pid == 0 {
			continue
		}
		if w, _, err := a.f.proc.Opens(pid, file); err == nil && w > 0 || errors.Is(err, proc.ErrBusy) {
			return true
		}
	}
	return false
}

// judgeBatch judges whole lines that are about to be appended to a.fd, as far as a
// file is appended to that is judged at all: see judgesRecords. What is refused is
// kept aside.
func (a *appender) judgeBatch(b []byte) unix.Errno {
	err := a.verdict(b)
	if err == nil {
		return 0
	}
	e := judgeErrno(err)
	a.keepBytes(b, e, judgeReason(err), err)
	return e
}

func (a *appender) verdict(b []byte) error {
	for _, path := range append(a.f.otherPaths(a.h.n), a.f.nodePath(a.h.n)) {
		v := a.f.validation(path)
		if v == nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(a.fd, &st); err != nil {
			return err
		}
		if err := fits(v, st.Size+int64(len(b))); err != nil {
			return err
		}
		if len(v.Formats) == 0 {
			continue
		}
		begun, err := openLine(a.fd, st.Size)
		if err == nil {
			err = validate.Lines(append(begun, b...))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fits judges a size that a file is about to have.
func fits(v *policy.Validation, size int64) error {
	if v.MaxSize == 0 || size <= v.MaxSize {
		return nil
	}
	return &validate.Refusal{
		Validator: validate.MaxSize, Reason: fmt.Sprintf("%d bytes would be more than %d", size, v.MaxSize),
	}
}

// openLine is what fd has after its last newline.
func openLine(fd int, size int64) ([]byte, error) {
	var line []byte
	for at := size; at > 0 && len(line) < maxOpenLine; {
		buf := make([]byte, min(at, 4096))
		at -= int64(len(buf))
		if n, err := unix.Pread(fd, buf, at); err != nil || n < len(buf) {
			return nil, unix.EIO
		}
		i := bytes.LastIndexByte(buf, '\n')
		line = append(buf[i+1:], line...)
		if i >= 0 {
			return line, nil
		}
	}
	if len(line) >= maxOpenLine {
		return nil, &validate.Refusal{Validator: string(policy.JSONL), Reason: "the file ends in a line that is too long to be checked"}
	}
	return line, nil
}

// judgeCut judges whether a.fd may be cut off at a size, or made longer by zeros.
func (a *appender) judgeCut(size int64) unix.Errno {
	path := a.f.nodePath(a.h.n)
	v := a.f.validation(path)
	var st unix.Stat_t
	if v == nil || unix.Fstat(a.fd, &st) != nil || size == 0 || size == st.Size {
		return 0
	}
	err := fits(v, size)
	last := make([]byte, 1)
	if err == nil && len(v.Formats) > 0 {
		if n, _ := unix.Pread(a.fd, last, size-1); n < 1 || last[0] != '\n' {
			err = &validate.Refusal{
				Validator: string(policy.JSONL), Reason: fmt.Sprintf("it would not end with a line at %d bytes", size),
			}
		}
	}
	if err != nil {
		return a.f.refuseContent(a.c, opTruncate, path, "", err)
	}
	return 0
}
