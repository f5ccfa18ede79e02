package fs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Who comes from another pid namespace is told once to walk again, and then opens the
// file, whoever begins to write it meanwhile: the kernel walks no third time.
func TestStrangerIsSentOnOnce(t *testing.T) {
	r := newRequests(t)
	r.tid = 0
	r.replace("one")
	write := func(id uint64) uint64 {
		fh, st := r.open(id, unix.O_WRONLY|unix.O_TRUNC)
		if st != 0 {
			t.Errorf("open for writing: %v", st)
		}
		return fh
	}
	id := r.lookup("f")
	fh := write(id)
	if _, st := r.open(id, unix.O_RDONLY); st != unix.ESTALE {
		t.Fatalf("at another's shadow: %v, want ESTALE", st)
	}
	r.close(id, fh)
	id = r.lookup("f")
	next := make(chan uint64, 1)
	go func() { next <- write(id) }()
	wants := func() bool { // it has the node, or waits for that
		k := r.f.kernel.nodeOf(id)
		r.f.nodes.mu.Lock()
		defer r.f.nodes.mu.Unlock()
		return k.in.sess != nil || k.idle != nil
	}
	for end := time.Now().Add(5 * time.Second); !wants(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the second writer does not come")
		}
	}
	fh, st := r.open(id, unix.O_RDONLY)
	if st != 0 {
		t.Fatalf("the second walk: %v", st)
	}
	r.close(id, fh)
	r.close(id, <-next)
}
