package judge

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// maxOpenLine is how long, in bytes, an unfinished last line of a file may be that is
// judged together with what is appended to it.
const maxOpenLine = 1 << 20

// ByLines reports whether what is appended to a file can be judged without the rest of it.
func ByLines(v *policy.Validation) bool {
	return v == nil || !v.NonEmpty && wholeJudge(v) == ""
}

// wholeJudge is the validator that looks at the whole of the content, "" if none does.
func wholeJudge(v *policy.Validation) string {
	for _, f := range v.Formats {
		if f != policy.JSONL {
			return string(f)
		}
	}
	if len(v.Command) > 0 {
		return validate.Command
	}
	return ""
}

// ByLines reports whether what is appended to a file with these paths can be judged, by the
// rules of each of them, without the rest of it.
func (j *Judge) ByLines(paths []string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !ByLines(j.Rules(path)) })
}

// JudgesLines reports whether each line of a file is judged.
func (j *Judge) JudgesLines(path string) bool {
	v := j.Rules(path)
	return v != nil && len(v.Formats) > 0
}

// Lines judges whole lines that are about to be appended to the file behind fd, which is open
// for reading, by the rules of each of its names. The error of what may not be appended is a
// *validate.Refusal.
func (j *Judge) Lines(paths []string, fd int, b []byte) error {
	for _, path := range paths {
		v := j.Rules(path)
		if v == nil {
			continue
		}
		if err := refuseJudgedAsWhole(v); err != nil {
			return err
		}
		if err := lines(v, fd, b); err != nil {
			return err
		}
	}
	return nil
}

// Cut judges whether the file behind fd, which is open for reading, may be cut off at a size
// in bytes, or made longer by zeros. The error of a size that it may not have is a
// *validate.Refusal.
func (j *Judge) Cut(path string, fd int, size int64) error {
	v := j.Rules(path)
	if v == nil {
		return nil
	}
	if err := refuseJudgedAsWhole(v); err != nil {
		return err
	}
	return cut(v, fd, size)
}

// refuseJudgedAsWhole refuses the change of a part of a file whose content v judges as a whole.
// An open leads to such changes only under other rules: since then the file has got a name with
// these. The rule that a file is not empty needs no refusal, for what is appended keeps it.
func refuseJudgedAsWhole(v *policy.Validation) error {
	by := wholeJudge(v)
	if by == "" {
		return nil
	}
	return &validate.Refusal{Validator: by, Reason: "the file has got a name since it was opened whose content is checked as a whole: open it again"}
}

// lines judges bytes that are about to be appended to the file behind fd, which is open for
// reading. It judges the size that the file has then and, where v judges each line, the lines
// that the bytes end; the first of these may have begun in the file. It returns a
// *validate.Refusal of what may not be appended, and another error if the file cannot be read.
func lines(v *policy.Validation, fd int, b []byte) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := fits(v, st.Size+int64(len(b))); err != nil {
		return err
	}
	if len(v.Formats) == 0 {
		return nil
	}
	begun, err := openLine(fd, st.Size)
	if err != nil {
		return err
	}
	return validate.Lines(append(begun, b...))
}

// cut judges a size, in bytes, at which the file behind fd is about to be cut off, or
// to which it is made longer by zeros. It returns a *validate.Refusal of a size that it may
// not have. An empty file is always accepted, and so is the size that it has.
func cut(v *policy.Validation, fd int, size int64) error {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || size == 0 || size == st.Size {
		return nil
	}
	if err := fits(v, size); err != nil || len(v.Formats) == 0 {
		return err
	}
	last := make([]byte, 1)
	if n, _ := unix.Pread(fd, last, size-1); n < 1 || last[0] != '\n' {
		return &validate.Refusal{
			Validator: string(policy.JSONL), Reason: fmt.Sprintf("it would not end with a line at %d bytes", size),
		}
	}
	return nil
}

// fits refuses a size, in bytes, that is above the bound of v.
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
