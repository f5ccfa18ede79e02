package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// FairShare is the largest amount that each may have so that all together have at
// most that much; what somebody does not need is left to the others.
func FairShare(has map[uint32]int64, most int64) int64 {
	amounts := make([]int64, 0, len(has))
	for _, n := range has {
		amounts = append(amounts, n)
	}
	slices.Sort(amounts)
	for i, n := range amounts {
		if each := most / int64(len(amounts)-i); n > each {
			return max(each, 0)
		}
		most -= n
	}
	return most
}

// userOf is who did what an event's line tells. An event without a user is ours,
// that is root's. The keys of a line are in order, and quotes in strings are
// escaped, so the last of that name is the event's own.
func userOf(line []byte) uint32 {
	i := bytes.LastIndex(line, []byte(`"uid":`))
	if i < 0 {
		return 0
	}
	digits := line[i+len(`"uid":`):]
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	uid, err := strconv.ParseUint(string(digits[:end]), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(uid)
}

// keepLocked makes one part of what is kept already and of the old part, which is none of
// its own then. It reads both twice, and has a few lines in memory at a time.
func (t *Trail) keepLocked() error {
	has := map[uint32]int64{}
	err := t.eachOldLineLocked(func(line []byte) error {
		has[userOf(line)] += int64(len(line))
		return nil
	})
	if err != nil {
		return err
	}
	share := FairShare(has, t.max/2)
	return t.replaceKeptLocked(func(w *bufio.Writer) error {
		return t.eachOldLineLocked(func(line []byte) error {
			uid := userOf(line)
			newest := has[uid] // the user's lines from this one on
			has[uid] = newest - int64(len(line))
			if newest > share {
				return nil
			}
			_, err := w.Write(line)
			return err
		})
	})
}

// eachOldLineLocked calls do for each line of the two older parts, the oldest first.
func (t *Trail) eachOldLineLocked(do func(line []byte) error) error {
	for _, f := range []struct {
		file *os.File
		size int64
	}{{t.kept, t.keptSize}, {t.old, t.oldSize}} {
		if f.file == nil {
			continue
		}
		lines := bufio.NewScanner(io.NewSectionReader(f.file, 0, f.size))
		lines.Buffer(make([]byte, 64<<10), math.MaxInt)
		lines.Split(wholeLine)
		for lines.Scan() {
			if err := do(lines.Bytes()); err != nil {
				return err
			}
		}
		if err := lines.Err(); err != nil {
			return err
		}
	}
	return nil
}

// wholeLine is a bufio.SplitFunc for lines with their ends; an unfinished one is left out.
func wholeLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// replaceKeptLocked makes what write writes the content of the kept part, and gives the
// old part up. On an error both are as they were.
func (t *Trail) replaceKeptLocked(write func(*bufio.Writer) error) error {
	if err := settle(t.dir); err != nil {
		return err
	}
	f, err := statedir.File(t.dir, newName, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	var size int64
	if err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err == nil { // what it replaces is on the disk
		err = t.step("sync", f.Sync)
	}
	if err == nil {
		err = t.step("leave", func() error { return rename(t.dir, oldName, leavingName) })
	}
	if err == nil {
		err = t.step("keep", func() error { return rename(t.dir, newName, keptName) })
	}
	if err != nil {
		return errors.Join(err, f.Close(), settle(t.dir))
	}
	// If it stays, the next rotation or Open removes it.
	_ = t.step("forget", func() error { return unlink(t.dir, leavingName) })
	if t.kept != nil {
		t.kept.Close()
	}
	t.old.Close()
	t.old, t.oldSize = nil, 0
	t.kept, t.keptSize = f, size
	t.keptTimes++
	return nil
}

// settle ends what a rotation or a repair has left that was cut short. The lines of the
// part that leaves are in the kept part if that has replaced the former one, which takes
// the name newName away: then they must not enter it again. Else that part gets its name
// back before what was made of it goes.
func settle(dir *os.File) error {
	leaving, err := exists(dir, leavingName)
	if err != nil {
		return err
	}
	made, err := exists(dir, newName)
	switch {
	case err != nil:
		return err
	case leaving && made:
		err = rename(dir, leavingName, oldName)
	case leaving:
		err = unlink(dir, leavingName)
	}
	if err == nil && made {
		err = unlink(dir, newName)
	}
	return err
}

func exists(dir *os.File, name string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return false, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return err == nil, nil
}

func unlink(dir *os.File, name string) error {
	if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
