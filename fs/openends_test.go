package fs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// An open comes to the shadow of a session that ends at that moment with nothing to save: the
// node is the file's again, and the shadow has no name any more. The file is opened.
func TestOpenOfAShadowThatEnds(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id, fh, s := r.session(unix.O_WRONLY)
	k, shadow := r.f.kernel.nodeOf(id), s.inode
	if st := r.closes(id, fh); st != 0 {
		t.Fatalf("close: %v", st)
	}
	r.release(id, fh)
	if dir, _ := r.f.nodes.nameOf(shadow); dir != nil || r.f.kernel.behind(k) == shadow {
		t.Fatal("the shadow has a name, or the node, still")
	}
	in := OpenRequest{Request: r.header(id), Flags: unix.O_WRONLY}
	var out Opened
	o := &opening{opens: r.f.opens, c: r.f.callers.openerOf(&in.Request), in: &in, out: &out, k: k, n: shadow, set: r.f.rules.settings("f")}
	if e := o.begin(); e != 0 {
		t.Fatalf("open: %v", e)
	}
	r.write(id, out.Handle, 0, "new")
	if st := r.closes(id, out.Handle); st != 0 {
		t.Errorf("close: %v", st)
	}
	r.release(id, out.Handle)
	r.want("at the end", "new", map[string]int{"commit": 1})
}
