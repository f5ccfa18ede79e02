package commit

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

const mib = 1 << 20

// extent is a stretch of data in a sparse file.
type extent struct{ start, end int64 }

func extents(t testing.TB, fd int, size int64) (all []extent) {
	t.Helper()
	check(t, disk.EachData(fd, size, func(start, end int64) error {
		all = append(all, extent{start, end})
		return nil
	}))
	return all
}

// sparse makes a file with data at 0, at 1 MiB and at 3 MiB, and a hole at its
// end.
func (w *world) sparse(name string) *os.File {
	w.t.Helper()
	f := openFile(w.t, w.path(name), os.O_RDWR|os.O_CREATE)
	for i, at := range []int64{0, mib, 3 * mib} {
		_, err := f.WriteAt(bytes.Repeat([]byte{byte('a' + i)}, 64<<10), at)
		check(w.t, err)
	}
	check(w.t, f.Truncate(8*mib+5))
	return f
}

func TestFillKeepsHoles(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for name, refuse := range map[string]string{"clone": "", "copy": "clone"} {
			t.Run(name, func(t *testing.T) {
				base := w.sparse("f")
				sh, err := w.s.NewShadow(w.shadowOptions("f", base))
				check(t, err)
				defer sh.Discard()
				w.s.disk.Fault = func(step string) error {
					if step == refuse {
						return unix.EOPNOTSUPP
					}
					return nil
				}
				check(t, sh.Fill(int(base.Fd())))
				checkSame(t, int(base.Fd()), sh.FD())
			})
		}
	})
}

// checkSame compares content and holes.
func checkSame(t *testing.T, want, got int) {
	t.Helper()
	a, b := statFD(t, want), statFD(t, got)
	if a.Size != b.Size {
		t.Fatalf("size %d, want %d", b.Size, a.Size)
	}
	x, y := make([]byte, a.Size), make([]byte, a.Size)
	for _, r := range []struct {
		fd int
		b  []byte
	}{{want, x}, {got, y}} {
		if _, err := unix.Pread(r.fd, r.b, 0); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(x, y) {
		t.Error("the content differs")
	}
	data := int64(0)
	for _, e := range extents(t, got, b.Size) {
		data += e.end - e.start
	}
	if data > mib {
		t.Errorf("%d bytes of data: the holes are filled", data)
	}
}

func TestFillOfEmptyAndOddSizes(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for _, size := range []int{0, 1, 4095, 4096, 4097, 3*mib + 1} {
			content := strings.Repeat("x", size)
			w.write("f", content)
			sh, base := w.shadowOf("f")
			if dirty, err := sh.Dirty(); dirty || err != nil {
				t.Errorf("size %d: dirty %v, %v", size, dirty, err)
			}
			_, err := sh.Publish(w.publishOptions("f", base))
			check(t, err)
			if w.read("f") != content {
				t.Errorf("size %d: the content differs", size)
			}
			check(t, sh.Discard())
		}
	})
}

func TestCopyBytes(t *testing.T) {
	dir := t.TempDir()
	from := openFile(t, dir+"/from", os.O_RDWR|os.O_CREATE)
	to := openFile(t, dir+"/to", os.O_RDWR|os.O_CREATE)
	content := bytes.Repeat([]byte("0123456789"), 250_000)
	_, err := from.Write(content)
	check(t, err)
	check(t, disk.CopyBytes(int(from.Fd()), int(to.Fd()), 5, 2_000_005))
	got, err := os.ReadFile(dir + "/to")
	check(t, err)
	if !bytes.Equal(got[5:], content[5:2_000_005]) {
		t.Error("the content differs")
	}
	// The source ends early: no error, the commit finds the conflict.
	check(t, disk.CopyBytes(int(from.Fd()), int(to.Fd()), 2_499_990, 3_000_000))
}

// Overwriting must not leave anything of what was there before, on filesystems
// with and without holes to punch.
func TestOverwrite(t *testing.T) {
	refusals := map[string][]string{"as it comes": nil, "no clone": {"clone"}, "no clone, no holes": {"clone", "punch"}}
	eachFS(t, func(t *testing.T, w *world) {
		for name, refused := range refusals {
			for _, old := range []int64{0, 100, 2 * mib, 12 * mib} {
				shadow := w.sparse("shadow")
				target := openFile(t, w.path("target"), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
				_, err := target.Write(bytes.Repeat([]byte("old!"), int(old/4)))
				check(t, err)
				w.s.disk.Fault = func(step string) error {
					for _, r := range refused {
						if step == r {
							return unix.EOPNOTSUPP
						}
					}
					return nil
				}
				size := statFD(t, int(shadow.Fd())).Size
				check(t, w.s.disk.Overwrite(int(shadow.Fd()), int(target.Fd()), size))
				want, got := w.read("shadow"), w.read("target")
				if want != got {
					t.Errorf("%s, over %d bytes: the content differs", name, old)
				}
			}
		}
	})
}
