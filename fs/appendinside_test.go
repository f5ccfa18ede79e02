package fs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// pages are sent by the kernel when it writes a mapping back: on nobody's behalf, without the
// flags of an open.
func (r *requests) pages(id, fh uint64, at int, text string) {
	r.t.Helper()
	h := r.header(id)
	h.TID = 0
	in := WriteRequest{Request: h, Handle: fh, Cached: true, Offset: uint64(at)}
	if n, st := r.f.contents.Write(nil, &in, [][]byte{[]byte(text)}); st != 0 || int(n) != len(text) {
		r.t.Fatalf("pages with %q: %d, %v", text, n, st)
	}
}

// The pages of a mapping go to their place in the file that is open to append, and make it no
// longer. They are no change by others, and none outside the mount.
func TestPagesOfAnAppendersMapping(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("0123456789\n")
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_RDWR|unix.O_APPEND)
	if st != 0 {
		t.Fatal(st)
	}
	r.pages(id, fh, 0, "first")
	r.want("before the first record", "first56789\n", nil)
	r.write(id, fh, 11, "one\n")
	r.pages(id, fh, 10, "\nONE\nbehind the end")
	r.pages(id, fh, 4096, "far behind the end")
	r.write(id, fh, 15, "two\n")
	r.want("between records", "first56789\nONE\ntwo\n", nil)
	r.close(id, fh)
	r.want("after the close", "first56789\nONE\ntwo\n", map[string]int{"commit": 1})
}

// After a save of the file they go to the version that is mapped, as records go to the new one.
func TestPagesOfAReplacedFile(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old\n")
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_RDWR|unix.O_APPEND)
	if st != 0 {
		t.Fatal(st)
	}
	r.write(id, fh, 4, "one\n")
	r.replace("new\n")
	r.pages(id, fh, 0, "OLD")
	r.write(id, fh, 8, "two\n")
	r.pages(id, fh, 0, "OLD")
	r.want("after a save", "new\ntwo\n", nil)
	r.close(id, fh)
}
