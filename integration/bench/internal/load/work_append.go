package load

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
)

func appendWorks() []Work {
	return []Work{
		{
			ID: "append", Title: "append a line durably: open, write, close", Promises: []Durability{Full},
			Does:    "64 bytes, as `echo >> file` does, on disk when close returns; elsewhere with fdatasync before it",
			prepare: func(s Spec) (*job, error) { return newAppendOpen(s, !s.CloseCommits) },
		},
		{
			ID: "append-lazy", Title: "append a line: open, write, close", Target: figures.Target{VsLoopback: 1, VsBindfs: 1.2}, Promises: []Durability{Auto, Lazy},
			Does:    "the same, and nobody syncs",
			prepare: func(s Spec) (*job, error) { return newAppendOpen(s, false) },
		},
		{
			ID: "append-held", Title: "append a line to an open file", Commits: true,
			Does:    "64 bytes through one O_APPEND descriptor, which is not closed meanwhile; nobody syncs",
			prepare: newAppendHeld,
		},
	}
}

// line is 64 bytes long, its newline included.
func line() []byte {
	b := make([]byte, 64)
	for i := range b {
		b[i] = 'l'
	}
	b[len(b)-1] = '\n'
	return b
}

// newNotes starts an empty file to append to. Its name is none of the built-in
// policy's streams (*.log), which would be live.
func newNotes(root string) (string, error) {
	path := filepath.Join(root, appendDir, "notes.txt")
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return "", At("unlink", path, err)
	}
	return path, writeFile(path, line(), false)
}

func openAppend(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	return fd, At("open", path, err)
}

// newAppendOpen appends with an open for each line.
func newAppendOpen(s Spec, sync bool) (*job, error) {
	path, err := newNotes(s.Root)
	if err != nil {
		return nil, err
	}
	record := line()
	op := func(int) error {
		fd, err := openAppend(path)
		if err != nil {
			return err
		}
		if err := writeAll(fd, record); err != nil {
			unix.Close(fd)
			return At("write", path, err)
		}
		if sync {
			if err := unix.Fdatasync(fd); err != nil {
				unix.Close(fd)
				return At("fdatasync", path, err)
			}
		}
		return At("close", path, unix.Close(fd))
	}
	return &job{warm: 3, op: op}, nil
}

func newAppendHeld(s Spec) (*job, error) {
	path, err := newNotes(s.Root)
	if err != nil {
		return nil, err
	}
	fd, err := openAppend(path)
	if err != nil {
		return nil, err
	}
	record := line()
	return &job{
		warm:  3,
		op:    func(int) error { return At("write", path, writeAll(fd, record)) },
		clean: func() error { return At("close", path, unix.Close(fd)) },
	}, nil
}
