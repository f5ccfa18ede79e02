package fs

import "testing"

// A file that its own writer has removed has no name for the locks on its descriptors,
// whatever has that name by then.
func TestStandingOfARemovedFile(t *testing.T) {
	r, _ := unmounted(t, "")
	_, fh := r.create("f")
	h := r.f.handles.handleOf(fh)
	if is := h.Standing(); !is.InSession || is.Unnamed || is.Path != "f" {
		t.Errorf("while it is written: %+v", is)
	}
	dir := r.header(rootID)
	if st := r.f.entries.Unlink(nil, &dir, "f"); st != 0 {
		t.Fatalf("unlink: %v", st)
	}
	r.create("f")
	if is := h.Standing(); is.InSession || !is.Unnamed {
		t.Errorf("when it is removed: %+v", is)
	}
}
