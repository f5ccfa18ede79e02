package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
)

const (
	mib        = 1 << 20
	streamSize = 256 * mib // the file a sequential write fills
)

func dataWorks() []Work {
	open := figures.Throughput(0.95)
	small := open
	small.OrLoopback = true // the kernel's own share is more than that
	return []Work{
		{
			ID: "seq-write", Title: "sequential write, 1 MiB blocks", Target: open,
			Does:    fmt.Sprintf("a new file filled to %d MiB; per block, without open and close", streamSize/mib),
			prepare: newSeqWrite,
		},
		{
			ID: "seq-read", Title: "sequential read, 1 MiB blocks", Target: open,
			Does:    fmt.Sprintf("an open file of %d MiB, cached; per block", bigSize/mib),
			prepare: newSeqRead,
		},
		{
			ID: "write-4k", Title: "write, 4 KiB blocks", Target: small,
			Does:    fmt.Sprintf("over and over a new file of %d MiB that stays open; per block", updateSize/mib),
			prepare: newWriteOver,
		},
		{
			ID: "update-4k", Title: "write, 4 KiB blocks, into an existing file", Target: small,
			Does:    fmt.Sprintf("over and over an existing file of %d MiB, opened read-write without O_TRUNC; per block", updateSize/mib),
			prepare: newUpdate,
		},
		{
			ID: "read-4k", Title: "random read, 4 KiB", Target: small,
			Does:    fmt.Sprintf("an open file of %d MiB, cached", bigSize/mib),
			prepare: newRandomRead,
		},
	}
}

func newSeqWrite(s Spec) (*job, error) {
	block := bytes.Repeat([]byte("x"), mib)
	fd, clean, err := newStream(s.Root)
	if err != nil {
		return nil, err
	}
	return &job{fixed: streamSize / mib, clean: clean, op: func(int) error { return writeAll(fd, block) }}, nil
}

// newStream opens a new file; clean empties it before the close, so that
// nobody has to write data out that nobody wants.
func newStream(root string) (fd int, clean func() error, err error) {
	path := filepath.Join(root, streamDir, "stream.bin")
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return -1, nil, At("open", path, err)
	}
	clean = func() error {
		truncated := unix.Ftruncate(fd, 0)
		closed := unix.Close(fd)
		if truncated != nil {
			return At("truncate", path, truncated)
		}
		if closed != nil {
			return At("close", path, closed)
		}
		return At("unlink", path, unix.Unlink(path))
	}
	return fd, clean, nil
}

func newSeqRead(s Spec) (*job, error) {
	fd, err := openBig(s.Root)
	if err != nil {
		return nil, err
	}
	blocks := bigSize / mib
	buf := make([]byte, mib)
	return &job{
		warm: blocks,
		op:   func(i int) error { return readAt(fd, buf, int64(i%blocks)*mib) },
	}, nil
}

func newRandomRead(s Spec) (*job, error) {
	fd, err := openBig(s.Root)
	if err != nil {
		return nil, err
	}
	for i := range int64(bigSize / mib) {
		if err := readAt(fd, make([]byte, mib), i*mib); err != nil {
			return nil, err
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same offsets for everybody
	offsets := make([]int64, 4096)
	for i := range offsets {
		offsets[i] = random.Int64N(bigSize/PageSize) * PageSize
	}
	buf := make([]byte, PageSize)
	return &job{
		warm: len(offsets), batch: 64,
		op: func(i int) error { return readAt(fd, buf, offsets[i%len(offsets)]) },
	}, nil
}

func openBig(root string) (int, error) {
	path := filepath.Join(root, bigFile)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, At("open", path, err)
}

func readAt(fd int, buf []byte, offset int64) error {
	n, err := unix.Pread(fd, buf, offset)
	if err == nil && n < len(buf) {
		return fmt.Errorf("short read: %d of %d bytes", n, len(buf))
	}
	return err
}

func newWriteOver(s Spec) (*job, error) {
	fd, clean, err := newStream(s.Root)
	if err != nil {
		return nil, err
	}
	return &job{warm: updateSize / PageSize, batch: 64, clean: clean, op: overwrite(fd)}, nil
}

// newUpdate leaves the file to be committed at the end, which is not timed.
func newUpdate(s Spec) (*job, error) {
	path := filepath.Join(s.Root, updateFile)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, At("open", path, err)
	}
	clean := func() error { return At("close", path, unix.Close(fd)) }
	return &job{warm: updateSize / PageSize, batch: 64, clean: clean, op: overwrite(fd)}, nil
}

// overwrite goes through the file from its start to its end, again and again.
func overwrite(fd int) func(int) error {
	block := bytes.Repeat([]byte("y"), PageSize)
	return func(i int) error {
		n, err := unix.Pwrite(fd, block, int64(i%(updateSize/PageSize))*PageSize)
		if err == nil && n < len(block) {
			return fmt.Errorf("short write: %d of %d bytes", n, len(block))
		}
		return err
	}
}
