package audit

import (
	"errors"
	"io"
)

// ErrRotated is the error of reading a part of the trail that has been rotated away
// meanwhile.
var ErrRotated = errors.New("this part of the audit trail has been rotated away")

// View is a reader's view of the audit trail: it begins with the oldest
// event that is kept when it is made and grows as events are added; what was
// read at an offset once is never anything else. It needs no closing.
type View struct {
	trail *Trail
	start int64
	kept  int // the kept part, counted as Trail.keptTimes
}

// View returns a view of the trail.
func (t *Trail) View() *View {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return &View{trail: t, start: t.start - t.oldSize - t.keptSize, kept: t.keptTimes}
}

// Size returns the number of bytes that the view has now.
func (v *View) Size() int64 {
	v.trail.mu.RLock()
	defer v.trail.mu.RUnlock()
	return v.trail.start + v.trail.size - v.start
}

// ReadAt implements io.ReaderAt over the view. It ends with io.EOF at the
// present end, and fails with ErrRotated where the part is kept no more.
func (v *View) ReadAt(p []byte, off int64) (n int, err error) {
	t := v.trail
	t.mu.RLock()
	defer t.mu.RUnlock()
	at := v.start + off
	old := t.start - t.oldSize
	if at < old {
		if v.kept != t.keptTimes || at < old-t.keptSize {
			return 0, ErrRotated
		}
		n, err = t.kept.ReadAt(p[:min(int64(len(p)), old-at)], at-(old-t.keptSize))
		if err != nil || n == len(p) {
			return n, err
		}
		at = old
	}
	if at < t.start {
		m, err := t.old.ReadAt(p[n:n+int(min(int64(len(p)-n), t.start-at))], at-old)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
		at = t.start
	}
	avail := t.start + t.size - at
	if avail <= 0 {
		return n, io.EOF
	}
	m, err := t.cur.ReadAt(p[n:n+int(min(int64(len(p)-n), avail))], at-t.start)
	n += m
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}
