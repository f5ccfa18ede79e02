package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPosixData exercises one file as fsx does: random reads, writes, holes,
// copies, mappings and truncations at random offsets, against a model in
// memory, with closes in between. After each close the data directory must hold
// what the model holds; before it, what it held after the last one.
func TestPosixData(t *testing.T) {
	needsRoot(t)
	for name, opts := range map[string][]mountOption{"passthrough": nil, "no passthrough": {noPassthrough()}} {
		t.Run(name, func(t *testing.T) {
			m := mount(t, append(opts, withArgs("--durability", "ordered"))...)
			seed := uint64(drawnSeed())
			for i := range repeat(2, 200) {
				seed++
				f := &dataFile{t: t, path: m.Path("f"), under: filepath.Join(m.Data, "f"), r: rand.New(rand.NewPCG(seed, 0)), fd: -1, database: i%2 == 1}
				f.run(repeat(600, 3000))
				if err := os.Remove(f.path); err != nil {
					t.Fatal(err)
				}
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		})
	}
}

// dataFile is a file and what it must hold.
type dataFile struct {
	t           *testing.T
	path, under string
	r           *rand.Rand
	fd          int
	model       []byte // as the open descriptor sees it
	committed   []byte // as everybody else does
	log         []string

	// database lets the file be used as a database would, mapped and synced
	// several times, which may make it live: what is published before the close
	// is not looked at then.
	database bool
	synced   bool // since the open
}

// dataLimit is how large the file gets.
const dataLimit = 300 << 10

func (f *dataFile) run(steps int) {
	f.open(unix.O_RDWR | unix.O_CREAT)
	moves := []func(){f.write, f.write, f.write, f.read, f.read, f.truncate, f.punch, f.zero, f.allocate, f.copyRange, f.mapped, f.append, f.sync, f.reopen}
	for range steps {
		moves[f.r.IntN(len(moves))]()
		if f.t.Failed() {
			f.t.Logf("after %q", f.log[max(0, len(f.log)-15):])
			break
		}
	}
	f.closeAndCompare()
}

func (f *dataFile) note(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *dataFile) check(what string, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Errorf("%s: %v", what, err)
	}
}

func (f *dataFile) open(flags int) {
	f.note("open %#x", flags)
	fd, err := unix.Open(f.path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		f.t.Fatalf("open %#x: %v, after %q", flags, err, f.log)
	}
	f.fd, f.synced = fd, false
	if flags&unix.O_TRUNC != 0 {
		f.model = nil
	}
}

// span is a random range below the limit.
func (f *dataFile) span() (off, n int) {
	off = f.r.IntN(dataLimit)
	n = 1 + f.r.IntN(min(dataLimit-off, 1<<f.r.IntN(17)))
	return off, n
}

// grow lengthens the model with zeros.
func (f *dataFile) grow(size int) {
	if size > len(f.model) {
		f.model = append(f.model, make([]byte, size-len(f.model))...)
	}
}

func (f *dataFile) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.r.IntN(256))
	}
	return b
}

func (f *dataFile) write() {
	off, n := f.span()
	b := f.random(n)
	f.note("write %d+%d", off, n)
	got, err := unix.Pwrite(f.fd, b, int64(off))
	f.check("write", err)
	f.grow(off + got)
	copy(f.model[off:], b[:got])
}

func (f *dataFile) append() {
	n := 1 + f.r.IntN(5000)
	if len(f.model)+n > dataLimit {
		return
	}
	b := f.random(n)
	f.note("write %d at the end", n)
	_, err := unix.Pwrite(f.fd, b, int64(len(f.model)))
	f.check("write", err)
	f.model = append(f.model, b...)
}

func (f *dataFile) read() {
	off, n := f.span()
	b := make([]byte, n)
	f.note("read %d+%d", off, n)
	got, err := unix.Pread(f.fd, b, int64(off))
	f.check("read", err)
	want := f.model[min(off, len(f.model)):min(off+n, len(f.model))]
	if !bytes.Equal(b[:max(got, 0)], want) {
		f.t.Errorf("read %d+%d: %s, want %s", off, n, brief(b[:got]), brief(want))
	}
}

func (f *dataFile) truncate() {
	size := f.r.IntN(dataLimit)
	f.note("truncate %d", size)
	f.check("truncate", unix.Ftruncate(f.fd, int64(size)))
	f.grow(size)
	f.model = f.model[:size]
}

func (f *dataFile) punch() {
	off, n := f.span()
	f.note("punch %d+%d", off, n)
	f.check("punch", unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n)))
	clear(f.model[min(off, len(f.model)):min(off+n, len(f.model))])
}

func (f *dataFile) zero() {
	off, n := f.span()
	f.note("zero %d+%d", off, n)
	f.check("zero", unix.Fallocate(f.fd, unix.FALLOC_FL_ZERO_RANGE, int64(off), int64(n)))
	f.grow(off + n)
	clear(f.model[off : off+n])
}

func (f *dataFile) allocate() {
	off, n := f.span()
	f.note("allocate %d+%d", off, n)
	f.check("allocate", unix.Fallocate(f.fd, 0, int64(off), int64(n)))
	f.grow(off + n)
}

func (f *dataFile) copyRange() {
	from, n := f.span()
	to := f.r.IntN(dataLimit - n)
	if from+n > len(f.model) || from < to+n && to < from+n {
		return // the call refuses overlapping ranges
	}
	f.note("copy %d+%d to %d", from, n, to)
	in, out := int64(from), int64(to)
	for done := 0; done < n; {
		c, err := unix.CopyFileRange(f.fd, &in, f.fd, &out, n-done, 0)
		if err != nil || c == 0 {
			f.t.Errorf("copy_file_range: %d, %v", c, err)
			return
		}
		done += c
	}
	f.grow(to + n)
	copy(f.model[to:to+n], f.model[from:from+n])
}

// mapped reads and writes through a shared mapping.
func (f *dataFile) mapped() {
	if len(f.model) == 0 || !f.database {
		return
	}
	m, err := unix.Mmap(f.fd, 0, len(f.model), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.t.Errorf("mmap: %v", err)
		return
	}
	if !bytes.Equal(m, f.model) {
		f.t.Errorf("the mapping shows %s, want %s", brief(m), brief(f.model))
	}
	off := f.r.IntN(len(f.model))
	n := f.r.IntN(min(len(f.model)-off, 10_000) + 1)
	f.note("store %d+%d", off, n)
	b := f.random(n)
	copy(m[off:], b)
	copy(f.model[off:], b)
	if f.r.IntN(2) == 0 {
		f.check("msync", unix.Msync(m, unix.MS_SYNC))
	}
	f.check("munmap", unix.Munmap(m))
}

func (f *dataFile) sync() {
	if f.synced && !f.database {
		return
	}
	f.synced = true
	f.note("fsync")
	f.check("fsync", unix.Fsync(f.fd))
	f.compareUnpublished("after an fsync")
}

// reopen closes, which is a commit, and goes on with a new descriptor.
func (f *dataFile) reopen() {
	f.closeAndCompare()
	flags := unix.O_RDWR
	if f.r.IntN(4) == 0 {
		flags |= unix.O_TRUNC
	}
	f.open(flags)
}

func (f *dataFile) closeAndCompare() {
	f.note("close")
	f.compareUnpublished("before the close")
	f.check("close", unix.Close(f.fd))
	f.committed = bytes.Clone(f.model)
	if f.committed == nil {
		f.committed = []byte{}
	}
	f.compareUnder("the commit")
	b, err := os.ReadFile(f.path)
	f.check("read after the close", err)
	if !bytes.Equal(b, f.model) {
		f.t.Errorf("after the close the file holds %s, want %s", brief(b), brief(f.model))
	}
}

// compareUnpublished holds that nothing is seen of what is not committed.
func (f *dataFile) compareUnpublished(when string) {
	f.t.Helper()
	if !f.database && !*plain { // on a plain directory every write is seen at once
		f.compareUnder(when)
	}
}

// compareUnder looks at the data directory; nil is a file that is not there yet.
func (f *dataFile) compareUnder(what string) {
	f.t.Helper()
	b, err := os.ReadFile(f.under)
	if os.IsNotExist(err) && f.committed == nil {
		return
	}
	f.check("read around the mount", err)
	if f.committed == nil || !bytes.Equal(b, f.committed) {
		f.t.Errorf("%s: the data directory holds %s, want %s", what, brief(b), brief(f.committed))
	}
}
