package load

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"latchfs/integration/bench/internal/figures"
)

func untarWork() Work {
	return Work{
		ID: "untar", Title: "untar of 2,000 files", Target: figures.Target{VsLoopback: 1, VsBindfs: 1.2}, Commits: true,
		Does: fmt.Sprintf("`tar -xf` of %d files of 4 KiB in %d directories, started as a process; per archive; tar syncs nothing, but latchfs commits each file",
			archiveDirs*archivePerDir, archiveDirs),
		prepare: newUntar,
	}
}

func newUntar(s Spec) (*job, error) {
	dir := filepath.Join(s.Root, untarDir)
	tar, err := exec.LookPath("tar")
	if err != nil {
		return nil, err
	}
	op := func(int) error {
		out, err := exec.Command(tar, "-xf", s.Archive, "-C", dir).CombinedOutput()
		if err != nil {
			first, _, _ := strings.Cut(string(out), "\n")
			return fmt.Errorf("tar: %w: %s", err, first)
		}
		return nil
	}
	return &job{fixed: 1, op: op, clean: func() error { return emptyDir(dir) }}, nil
}

// emptyDir removes what is in dir, through the mount.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
