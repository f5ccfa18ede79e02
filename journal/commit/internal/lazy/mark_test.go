package lazy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"latchfs/journal/commit/internal/disk"
)

func TestLazyMark(t *testing.T) {
	for _, m := range []Mark{
		{seq: 1, ino: 2, size: 3, crc: 4, name: "f"},
		{seq: 1 << 63, ino: 1<<64 - 1, birth: -5, size: 1 << 40, mtime: -6, crc: 1<<32 - 1, oldIno: 7, old: disk.ReservedPrefix + strings.Repeat("0", 32), keep: "000102030405060708090a0b0c0d0e0f", name: "a b\n\xff - "},
	} {
		got, ok := ParseMark(m.String())
		if diff := cmp.Diff(m, got, cmp.AllowUnexported(Mark{})); diff != "" || !ok {
			t.Errorf("%q: %v %s", m, ok, diff)
		}
		for n := range len(m.String()) {
			if _, ok := ParseMark(m.String()[:n]); ok {
				t.Errorf("%q is whole", m.String()[:n])
			}
		}
	}
	for _, bad := range []Mark{{name: "a/b"}, {name: ".."}, {}, {name: disk.StateDirName}, {name: "f", old: "g"}} {
		if _, ok := ParseMark(bad.String()); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzLazyMark(f *testing.F) {
	f.Add("f", uint64(1), int64(2), uint32(3))
	f.Fuzz(func(t *testing.T, name string, ino uint64, size int64, crc uint32) {
		m := Mark{seq: ino, ino: ino, size: size, crc: crc, name: name}
		got, ok := ParseMark(m.String())
		if ok && got != m {
			t.Errorf("%+v became %+v", m, got)
		}
		ParseMark(name)
	})
}
