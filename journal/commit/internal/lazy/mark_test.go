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
	for _, m := range []Mark{
		{seq: 1, ino: 2, size: 3, crc: 4, name: "f"},
		{seq: 1 << 63, ino: 1<<64 - 1, birth: 1 << 60, mtime: -6, size: 16 << 20, crc: 1<<32 - 1, name: "a b\n\xff - "},
		{seq: 1, ino: 2, birth: 5, mtime: 7, oldIno: 7, old: disk.ReservedPrefix + strings.Repeat("ab", 16), name: "F"},
		{seq: 1, ino: 2, oldIno: 7, keep: "000102030405060708090a0b0c0d0e0f", name: strings.Repeat("x", 60)},
	} {
		name, ok := m.linkName()
		if !ok || len(name) > longestName || !disk.Reserved(name) || disk.Generated(name) || name != strings.ToLower(name) {
			t.Errorf("%+v: %q, %v", m, name, ok)
		}
		got, ok := parseName(name)
		if diff := cmp.Diff(m, got, cmp.AllowUnexported(Mark{})); diff != "" || !ok {
			t.Errorf("%q: %v %s", name, ok, diff)
		}
		for n := range len(name) {
			if _, ok := parseName(name[:n]); ok {
				t.Errorf("%q is whole", name[:n])
			}
		}
		for i := len(disk.MarkerPrefix); i < len(name); i++ {
			if _, ok := parseName(name[:i] + string(name[i]^3) + name[i+1:]); ok {
				t.Errorf("%q is believed with another byte at %d", name, i)
			}
		}
	}
	for _, m := range []Mark{{name: strings.Repeat("x", 200)}, {name: "f", keep: "0102"}, {name: "f", keep: strings.Repeat("x", 32)}} {
		if name, ok := m.linkName(); ok {
			t.Errorf("%+v has the name %q", m, name)
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
		link, ok := m.linkName()
		if !ok {
			return
		}
		got, ok = parseName(link)
		if ok != m.isPlausible() || ok && got != m {
			t.Errorf("%+v became %+v", m, got)
		}
		if m, ok := parseName(name); ok {
			if again, _ := m.linkName(); again != name {
				t.Errorf("%q is also called %q", name, again)
			}
		}
	})
}
