package commit

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

func TestDirty(t *testing.T) {
	changes := map[string]func(t *testing.T, fd int){
		"same bytes": func(t *testing.T, fd int) { check(t, disk.WriteAll(fd, []byte("old"), 0)) },
		"one byte":   func(t *testing.T, fd int) { check(t, disk.WriteAll(fd, []byte("x"), 1)) },
		"truncate":   func(t *testing.T, fd int) { check(t, unix.Ftruncate(fd, 0)) },
		"longer":     func(t *testing.T, fd int) { check(t, unix.Ftruncate(fd, 10)) },
		"same size":  func(t *testing.T, fd int) { check(t, unix.Ftruncate(fd, 3)) },
		"fallocate":  func(t *testing.T, fd int) { check(t, unix.Fallocate(fd, 0, 0, 4096)) },
		"punch": func(t *testing.T, fd int) {
			check(t, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 2))
		},
		"mapping": func(t *testing.T, fd int) {
			b, err := unix.Mmap(fd, 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			check(t, err)
			b[0] = 'x'
			check(t, unix.Munmap(b))
		},
		"written and times put back": func(t *testing.T, fd int) {
			st := statFD(t, fd)
			check(t, disk.WriteAll(fd, []byte("new"), 0))
			check(t, disk.Futimens(fd, [2]unix.Timespec{st.Atim, st.Mtim}))
		},
	}
	eachFS(t, func(t *testing.T, w *world) {
		for name, change := range changes {
			t.Run(name, func(t *testing.T) {
				// The base is of this very moment, so all within one tick of the
				// clock that timestamps are taken from.
				for range 20 {
					os.Remove(w.path("f"))
					w.write("f", "old")
					sh, _ := w.shadowOf("f")
					if dirty, err := sh.Dirty(); dirty || err != nil {
						t.Fatalf("unchanged: dirty %v, %v", dirty, err)
					}
					change(t, sh.FD())
					if dirty, err := sh.Dirty(); !dirty || err != nil {
						t.Fatalf("dirty %v, %v", dirty, err)
					}
					check(t, sh.Mark())
					if dirty, err := sh.Dirty(); dirty || err != nil {
						t.Fatalf("marked again: dirty %v, %v", dirty, err)
					}
					check(t, sh.Discard())
				}
			})
		}
	})
}

func TestReadingIsNotDirty(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		sh, _ := w.shadowOf("f")
		defer sh.Discard()
		b := make([]byte, 3)
		_, err := unix.Pread(sh.FD(), b, 0)
		check(t, err)
		check(t, unix.Fsync(sh.FD()))
		if dirty, err := sh.Dirty(); dirty || err != nil {
			t.Errorf("dirty %v, %v", dirty, err)
		}
	})
}

// What is published without a write has the modification time of its base, not
// the one that Mark has set back.
func TestMarkLeavesNoTrace(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		before := w.stat("f")
		sh, base := w.shadowOf("f")
		check(t, sh.Mark())
		check(t, sh.Mark())
		_, err := sh.Publish(w.publishOptions("f", base))
		check(t, err)
		check(t, sh.Discard())
		if after := w.stat("f"); after.Mtim != before.Mtim {
			t.Errorf("mtime %v, was %v", after.Mtim, before.Mtim)
		}
	})
}

// Kernels before 6.13 stamp two writes within a tick alike.
func TestMarkSetsAPresentTimeBack(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		sh, err := w.s.NewShadow(w.shadowOptions("f", nil))
		check(t, err)
		defer sh.Discard()
		check(t, disk.WriteAll(sh.FD(), []byte("x"), 0))
		before := statFD(t, sh.FD()).Mtim
		check(t, sh.Mark())
		if after := statFD(t, sh.FD()).Mtim; after.Nano() != before.Nano()-1 {
			t.Errorf("mtime %v, was %v", after, before)
		}
		old := unix.Timespec{Sec: 1}
		check(t, disk.Futimens(sh.FD(), [2]unix.Timespec{old, old}))
		check(t, sh.Mark())
		if after := statFD(t, sh.FD()).Mtim; after != old {
			t.Errorf("an old mtime has become %v", after)
		}
	})
}

func TestUnmarkedIsDirty(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		sh, err := w.s.NewShadow(w.shadowOptions("f", nil))
		check(t, err)
		defer sh.Discard()
		if dirty, err := sh.Dirty(); !dirty || err != nil {
			t.Errorf("dirty %v, %v", dirty, err)
		}
	})
}
