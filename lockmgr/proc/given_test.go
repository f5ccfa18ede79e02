package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGivenPath(t *testing.T) {
	r := newReader(t)
	dir := t.TempDir()
	long := dir + strings.Repeat("/.", 1900) + "/" // the path goes over the end of a page
	for _, path := range []string{dir + "/pipe", long + "pipe", dir + "//pipe", "pipe"} {
		fifo := filepath.Join(dir, "pipe")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("cat", path)
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Nobody is told when cat has come to open its argument.
		var in unix.Stat_t
		if err := unix.Stat(dir, &in); err != nil {
			t.Fatal(err)
		}
		want := Given{Path: path}
		if !strings.HasPrefix(path, "/") {
			want.Dev, want.Ino = uint64(in.Dev), in.Ino
		}
		for given := (Given{}); given != want; {
			if _, err := r.stat(int32(cmd.Process.Pid)); err != nil {
				t.Fatalf("%.80q: %v", path, err)
			}
			given, _ = r.GivenPath(uint32(cmd.Process.Pid))
		}
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if err := os.Remove(fifo); err != nil {
			t.Fatal(err)
		}
	}
	if path, ok := r.GivenPath(uint32(startCat(t))); ok && strings.Contains(path.Path, "pipe") {
		t.Errorf("a process that reads has given the path %q", path.Path)
	}
}
