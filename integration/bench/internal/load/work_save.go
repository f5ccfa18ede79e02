package load

import (
	"bytes"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
)

// PageSize is the size of a small file and of a small read or write.
const PageSize = 4096

func saveWorks() []Work {
	return []Work{
		{
			ID: "save", Title: "safe save, 4 KiB", Promises: []Durability{Auto, Full},
			Does:    "latchfs: open with O_TRUNC, write, close. Elsewhere: temporary file, write, fsync, rename, open and fsync the directory",
			Target:  figures.Target{VsPlain: 1},
			prepare: func(s Spec) (*job, error) { return newSave(s, s.CloseCommits, Full) },
		},
		{
			ID: "save-ordered", Title: "ordered save, 4 KiB", Promises: []Durability{Ordered},
			Does:    "latchfs: open with O_TRUNC, write, close. Elsewhere: temporary file, write, fsync, rename",
			prepare: func(s Spec) (*job, error) { return newSave(s, s.CloseCommits, Ordered) },
		},
		{
			ID: "save-lazy", Title: "atomic save, 4 KiB", Promises: []Durability{Lazy},
			Does:    "latchfs: open with O_TRUNC, write, close. Elsewhere: temporary file, write, rename",
			Target:  figures.Target{VsPlain: 2},
			prepare: func(s Spec) (*job, error) { return newSave(s, s.CloseCommits, Lazy) },
		},
		{
			ID: "save8", Title: "safe save, 4 KiB, 8 files in parallel", Commits: true, Clients: 8,
			Does:    "the same by 8 processes, each with its own file in one directory; elapsed time divided by all saves",
			Target:  figures.Target{VsPlain: 1},
			prepare: func(s Spec) (*job, error) { return newSave(s, s.CloseCommits, Full) },
		},
		{
			ID: "save-by-hand", Title: "careful save by the program itself, 4 KiB", Commits: true,
			Does:    "temporary file, write, fsync, rename, fsync of the directory, on latchfs too: what careful programs do already",
			Target:  figures.Target{VsPlain: 1.3},
			prepare: func(s Spec) (*job, error) { return newSave(s, false, Full) },
		},
	}
}

// newSave rewrites one existing file again and again; each client has its own.
func newSave(s Spec, byClose bool, d Durability) (*job, error) {
	target := filepath.Join(s.Root, saveDir, fmt.Sprintf("state-%d.json", s.Index))
	content := bytes.Repeat([]byte("x"), PageSize)
	if err := writeFile(target, content, false); err != nil {
		return nil, err
	}
	op := func(int) error { return saveByRename(target, content, d) }
	if byClose {
		op = func(int) error { return writeFile(target, content, false) }
	}
	return &job{warm: 3, op: op}, nil
}

// writeFile is what `cmd > file` does: open with O_TRUNC, write, close.
func writeFile(path string, content []byte, sync bool) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return At("open", path, err)
	}
	if err := writeAll(fd, content); err != nil {
		unix.Close(fd)
		return At("write", path, err)
	}
	if sync {
		if err := unix.Fsync(fd); err != nil {
			unix.Close(fd)
			return At("fsync", path, err)
		}
	}
	return At("close", path, unix.Close(fd))
}

// saveByRename is the save that is atomic on any filesystem, as durable as it
// is to be.
func saveByRename(path string, content []byte, d Durability) error {
	temp := path + ".tmp"
	if err := writeFile(temp, content, d != Lazy); err != nil {
		return err
	}
	if err := unix.Rename(temp, path); err != nil {
		return At("rename", path, err)
	}
	if d != Full {
		return nil
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir syncs a directory, as whoever has renamed something there does.
func SyncDir(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return At("open", path, err)
	}
	defer unix.Close(fd)
	return At("fsync", path, unix.Fsync(fd))
}

// writeAll writes in one system call, for a client counts them; a short write
// is an error here.
func writeAll(fd int, b []byte) error {
	n, err := unix.Write(fd, b)
	if err == nil && n < len(b) {
		return fmt.Errorf("short write: %d of %d bytes", n, len(b))
	}
	return err
}
