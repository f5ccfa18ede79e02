package journal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func (o *opener) mustAppends(j *Journal, id uint64, size int64, want ...Append) {
	o.t.Helper()
	for what, j := range map[string]*Journal{"now": j, "after a crash": o.open()} {
		if diff := cmp.Diff(want, j.Appends(id), cmpopts.EquateEmpty()); diff != "" {
			o.t.Errorf("%s: %s", what, diff)
		}
		if in := j.st.open[id]; in.Size != size {
			o.t.Errorf("%s: known up to %d, want %d", what, in.Size, size)
		}
	}
}

func TestAppendedRecords(t *testing.T) {
	a, b, c := Append{Offset: 100, Length: 10, CRC: 1}, Append{Offset: 110, Length: 20, CRC: 2}, Append{Offset: 130, Length: 5, CRC: 3}
	for name, test := range map[string]struct {
		do   func(j *Journal, id uint64)
		size int64
		want []Append
	}{
		"in order": {func(j *Journal, id uint64) {
			check(t, j.Append(id, c))
		}, 100, []Append{a, b, c}},
		"known": {func(j *Journal, id uint64) {
			check(t, j.Known(id, b.Offset))
			check(t, j.Append(id, c))
		}, 110, []Append{b, c}},
		"known into the middle of a record": {func(j *Journal, id uint64) {
			check(t, j.Known(id, b.Offset+1))
		}, 111, []Append{b}},
		"all known": {func(j *Journal, id uint64) {
			check(t, j.Known(id, b.End()))
		}, 130, nil},
		"taken back": {func(j *Journal, id uint64) {
			check(t, j.Append(id, Append{Offset: 110, Length: 1, CRC: 4}))
		}, 100, []Append{a, {Offset: 110, Length: 1, CRC: 4}}},
		"taken back below what was known": {func(j *Journal, id uint64) {
			check(t, j.Known(id, b.End()))
			check(t, j.Append(id, Append{Offset: 50, Length: 1, CRC: 4}))
		}, 50, []Append{{Offset: 50, Length: 1, CRC: 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOpener(t)
			j := o.open()
			id := must[uint64](t)(j.Begin(appendIntent))
			check(t, j.Append(id, a))
			check(t, j.Append(id, b))
			test.do(j, id)
			o.mustAppends(j, id, test.size, test.want...)
		})
	}
}

// Done forgets what was appended, and nothing can be appended afterwards.
func TestAppendNeedsAnOpenIntent(t *testing.T) {
	j := newOpener(t).open()
	id := must[uint64](t)(j.Begin(appendIntent))
	check(t, j.Append(id, Append{Length: 1}))
	check(t, j.Done(id))
	other := must[uint64](t)(j.Begin(fullIntent))
	for _, id := range []uint64{id, other, 4711} {
		if err := j.Append(id, Append{Length: 1}); err == nil {
			t.Errorf("appended under intent %d", id)
		}
		if err := j.Known(id, 1); err == nil {
			t.Errorf("known under intent %d", id)
		}
	}
	if left := j.Appends(id); len(left) != 0 || len(j.st.tails) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Rotation carries what is not known to be on disk, and only that.
func TestRotationFoldsAppends(t *testing.T) {
	o := newOpener(t)
	o.opts.MaxBytes = 4 << 10
	j := o.open()
	id := must[uint64](t)(j.Begin(appendIntent))
	at := appendIntent.Size
	for range 2000 {
		check(t, j.Append(id, Append{Offset: at, Length: 10, CRC: 5}))
		at += 10
		if at%100 == 0 {
			check(t, j.Known(id, at))
		}
	}
	check(t, j.Append(id, Append{Offset: at, Length: 3, CRC: 6}))
	for name, content := range o.files() {
		if strings.HasPrefix(name, segmentPrefix) && len(content) > 8<<10 {
			t.Errorf("%s has %d bytes", name, len(content))
		}
	}
	o.mustAppends(j, id, at, Append{Offset: at, Length: 3, CRC: 6})
}
