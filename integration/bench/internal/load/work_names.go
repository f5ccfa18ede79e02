package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
)

func nameWorks() []Work {
	mounts := figures.Target{BeatMounts: true}
	made := figures.Target{VsLoopback: 1, VsBindfs: 1.2}
	return []Work{
		{
			ID: "open", Title: "open, read 4 KiB, close", Target: mounts, Reads: true,
			Does:    fmt.Sprintf("%d files in turn, all cached", smallFiles),
			prepare: newOpenRead,
		},
		{
			ID: "stat", Title: "stat, cached", Target: mounts,
			Does:    fmt.Sprintf("%d files in turn, all cached", smallFiles),
			prepare: newStatHot,
		},
		{
			ID: "stat-cold", Title: "stat, uncached", Target: mounts,
			Does: fmt.Sprintf("%d files in %d directories, each once, after the kernel's names and inodes were dropped",
				manyDirs*manyPerDir, manyDirs),
			prepare: newStatCold,
		},
		{
			ID: "new", Title: "new file, 4 KiB", Target: made, Commits: true,
			Does:    "create, write, close, each under a name of its own; nobody syncs, but latchfs commits at close",
			prepare: newFiles,
		},
		{
			ID: "create", Title: "create, close, unlink", Target: made, Commits: true,
			Does:    "an empty file; nobody syncs, but latchfs commits at close",
			prepare: func(s Spec) (*job, error) { return newCreate(s, false) },
		},
		{
			ID: "create-synced", Title: "create durably, unlink", Target: made, Commits: true,
			Does:    "an empty file: create, fsync, close, fsync of the directory, unlink; only create, close, unlink where latchfs is *full* or *ordered*",
			prepare: func(s Spec) (*job, error) { return newCreate(s, !s.CloseSyncs) },
		},
		{
			ID: "readdir", Title: "readdir of 1,000 names", Target: mounts,
			Does:    "open the directory, getdents until the end, close",
			prepare: func(s Spec) (*job, error) { return newReaddir(s, false) },
		},
		{
			ID: "readdir-stat", Title: "readdir of 1,000 names with stat of each", Target: mounts,
			Does:    "the same and fstatat of every name, as ls -l does",
			prepare: func(s Spec) (*job, error) { return newReaddir(s, true) },
		},
	}
}

func newOpenRead(s Spec) (*job, error) {
	paths := smallPaths(s.Root)
	buf := make([]byte, PageSize)
	op := func(i int) error {
		path := paths[i%len(paths)]
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return At("open", path, err)
		}
		n, err := unix.Read(fd, buf)
		if err == nil && n != PageSize {
			err = fmt.Errorf("%d of %d bytes", n, PageSize)
		}
		if err != nil {
			unix.Close(fd)
			return At("read", path, err)
		}
		return At("close", path, unix.Close(fd))
	}
	return &job{warm: len(paths), batch: 16, op: op}, nil
}

func newStatHot(s Spec) (*job, error) {
	return &job{warm: smallFiles, batch: 64, op: statInTurn(smallPaths(s.Root))}, nil
}

func newStatCold(s Spec) (*job, error) {
	paths := manyPaths(s.Root)
	if err := dropNames(); err != nil {
		return nil, err
	}
	return &job{batch: len(paths), fixed: len(paths), op: statInTurn(paths)}, nil
}

func statInTurn(paths []string) func(int) error {
	var st unix.Stat_t
	return func(i int) error {
		path := paths[i%len(paths)]
		return At("stat", path, unix.Stat(path, &st))
	}
}

// dropNames empties the kernel's caches of names and inodes, of every
// filesystem alike; file contents and the disk's blocks stay cached. The pause
// lets the daemons work off the FORGET requests that follow.
func dropNames() error {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0); err != nil {
		return fmt.Errorf("drop the kernel's names and inodes: %w", err)
	}
	time.Sleep(100 * time.Millisecond)
	return nil
}

// newFiles makes files that stay until the clock has stopped.
func newFiles(s Spec) (*job, error) {
	dir := filepath.Join(s.Root, createDir, "many")
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return nil, At("mkdir", dir, err)
	}
	content, made := bytes.Repeat([]byte("x"), PageSize), 0
	op := func(int) error {
		made++
		return writeFile(filepath.Join(dir, fmt.Sprintf("new-%d", made)), content, false)
	}
	return &job{warm: 3, op: op, clean: func() error { return os.RemoveAll(dir) }}, nil
}

func newCreate(s Spec, sync bool) (*job, error) {
	dir := filepath.Join(s.Root, createDir)
	paths := make([]string, 64)
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprintf("new-%d", i))
	}
	op := func(i int) error {
		path := paths[i%len(paths)]
		if err := createEmpty(path, sync); err != nil {
			return err
		}
		if sync {
			if err := SyncDir(dir); err != nil {
				return err
			}
		}
		return At("unlink", path, unix.Unlink(path))
	}
	return &job{warm: 3, op: op}, nil
}

func createEmpty(path string, sync bool) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return At("create", path, err)
	}
	if sync {
		if err := unix.Fsync(fd); err != nil {
			unix.Close(fd)
			return At("fsync", path, err)
		}
	}
	return At("close", path, unix.Close(fd))
}

func newReaddir(s Spec, stat bool) (*job, error) {
	dir := filepath.Join(s.Root, listDir)
	buf := make([]byte, 32<<10) // what libc's readdir uses
	names := make([]string, 0, listFiles)
	op := func(int) error {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return At("open", dir, err)
		}
		defer unix.Close(fd)
		if names, err = readNames(fd, buf, names[:0]); err != nil {
			return At("getdents", dir, err)
		}
		if len(names) != listFiles {
			return fmt.Errorf("%d names instead of %d", len(names), listFiles)
		}
		if !stat {
			return nil
		}
		var st unix.Stat_t
		for _, name := range names {
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return At("stat", name, err)
			}
		}
		return nil
	}
	return &job{warm: 2, op: op}, nil
}

// readNames lists an open directory from its start, without "." and "..".
func readNames(fd int, buf []byte, names []string) ([]string, error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
