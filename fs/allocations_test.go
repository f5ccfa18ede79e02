package fs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What an operation allocates has a limit. That of a save leaves room for what is looked at
// before a session ends, the threads and the descriptors of this process, of which other
// tests leave more or less. TestCosts of the integration tests counts what is asked of the
// system.
func TestAllocations(t *testing.T) {
	r := newRequests(t)
	r.replace("one")
	root := Request{Node: rootID, TID: r.tid}
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"look a name up", 10, func() {
			var out Entry
			if st := r.f.opens.Lookup(nil, &root, "f", &out); st != 0 {
				t.Fatal(st)
			}
			r.f.kernel.Forget(out.Node, 1)
		}},
		{"stat", 0, func() {
			if st := r.f.attrs.GetAttr(nil, &AttrRequest{Request: root}, &AttrReply{}); st != 0 {
				t.Fatal(st)
			}
		}},
		{"read", 23, func() {
			id := r.lookup("f")
			fh, st := r.open(id, unix.O_RDONLY)
			if st != 0 {
				t.Fatal(st)
			}
			r.release(id, fh)
			r.f.kernel.Forget(id, 1)
		}},
		{"save", 700, func() {
			id := r.lookup("f")
			fh, st := r.open(id, unix.O_WRONLY|unix.O_TRUNC)
			if st != 0 {
				t.Fatal(st)
			}
			if _, st := r.f.contents.Write(nil, &WriteRequest{Request: r.header(id), Handle: fh}, [][]byte{[]byte("two")}); st != 0 {
				t.Fatal(st)
			}
			r.close(id, fh)
			r.f.kernel.Forget(id, 1)
		}},
	} {
		// What else goes on meanwhile is not owed to the operation.
		least := testing.AllocsPerRun(20, c.do)
		for range 5 {
			least = min(least, testing.AllocsPerRun(20, c.do))
		}
		t.Logf("%s: %v allocations", c.name, least)
		if least > c.most {
			t.Errorf("%s: %v allocations instead of at most %v", c.name, least, c.most)
		}
	}
}
