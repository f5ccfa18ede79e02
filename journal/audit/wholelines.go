package audit

import (
	"bytes"
	"os"
)

// cutLine cuts an unfinished last line off f, and the zeros that a power cut
// leaves, and returns the length that remains.
func cutLine(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err := wholeLines(f, st.Size())
	if err != nil || end == st.Size() {
		return end, err
	}
	return end, f.Truncate(end)
}

// wholeLinesOf is wholeLines for a file that is not written any more.
func wholeLinesOf(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return wholeLines(f, st.Size())
}

// wholeLines returns where the unfinished last line of f begins, or what a power
// cut has left of the end: its size, if there is nothing of the kind.
func wholeLines(f *os.File, size int64) (end int64, err error) {
	end = size
	buf := make([]byte, 64<<10)
	for end > 0 {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		i := bytes.LastIndexByte(buf[:n], '\n')
		if i >= 0 && bytes.IndexByte(buf[:i], 0) < 0 {
			return end - n + int64(i) + 1, nil
		}
		if i >= 0 {
			// A lost sector before this line: nothing behind it is whole.
			i = bytes.IndexByte(buf[:i], 0)
			end = end - n + int64(i)
			continue
		}
		end -= n
	}
	return 0, nil
}
