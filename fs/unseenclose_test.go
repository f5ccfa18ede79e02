package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// closedUnseen is a program of another pid namespace that has rewritten f, and closed a descriptor
// of it.
func closedUnseen(t *testing.T) (r *requests, id, fh uint64, s *session) {
	t.Helper()
	r, _ = unmounted(t, "")
	if err := os.WriteFile(filepath.Join(r.data, "f"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	id, r.tid = r.lookup("f"), 0
	fh, e := r.open(id, unix.O_WRONLY|unix.O_TRUNC)
	if e != 0 {
		t.Fatal(e)
	}
	r.write(id, fh, 0, "newer")
	s = r.f.nodes.sessionAt(r.f.kernel.inodeOf(rootID), "f")
	if e := r.closes(id, fh); e != 0 {
		t.Fatalf("close: %v", e)
	}
	r.want("after the close", "old", nil)
	return r, id, fh, s
}

// sizeOf looks a name up, as a path does, and returns the size.
func (r *requests) sizeOf(name string) uint64 {
	var out Entry
	h := r.header(rootID)
	if e := r.f.opens.Lookup(nil, &h, name, &out); e != 0 {
		r.t.Errorf("lookup of %s: %v", name, e)
	}
	return out.Attr.Size
}

// Whoever comes after a close that nobody could see the end of finds what RELEASE makes of it.
func TestUnseenCloseIsAwaited(t *testing.T) {
	r, id, fh, s := closedUnseen(t)
	s.mu.Lock() // which RELEASE needs, and whoever has waited for it in vain
	looked := make(chan uint64)
	go func() { looked <- r.sizeOf("f") }()
	go r.release(id, fh)
	var size uint64
	select {
	case size = <-looked:
		s.mu.Unlock()
		t.Error("the lookup has not waited")
	case <-time.After(2 * releaseTicks * releaseTick):
		s.mu.Unlock()
		size = <-looked
	}
	if size != 5 {
		t.Errorf("f has %d bytes, want 5", size)
	}
	r.await("the commit", func() bool { held, _ := r.f.rules.table.Len(); return held == 0 })
	r.want("after the release", "newer", map[string]int{"commit": 1})
}

// While another descriptor is open the file is what it was, and nobody waits for it twice.
func TestUnseenDescriptorIsLeft(t *testing.T) {
	r, id, fh, s := closedUnseen(t)
	if !s.holders.IsUnseen() {
		t.Error("nobody would wait")
	}
	for range 2 {
		if size := r.sizeOf("f"); size != 3 {
			t.Errorf("f has %d bytes, want 3", size)
		}
		if s.holders.IsUnseen() {
			t.Error("the next would wait again")
		}
	}
	r.write(id, fh, 0, "newest")
	if e := r.closes(id, fh); e != 0 {
		t.Fatalf("close: %v", e)
	}
	r.release(id, fh)
	if size := r.sizeOf("f"); size != 6 {
		t.Errorf("f has %d bytes, want 6", size)
	}
	r.want("after the release", "newest", map[string]int{"commit": 1})
}
