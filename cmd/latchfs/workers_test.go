package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Who works below a directory is found by its working directory and by its open
// files; on the filesystem that is mounted there, or beside it, nobody is.
func TestFindWorkers(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mustMkdir(t, filepath.Join(dir, "in"))
	mustWrite(t, filepath.Join(dir, "in", "f"), "", 0o600)
	mustMkdir(t, dir+"2")
	t.Cleanup(func() { os.RemoveAll(dir + "2") })
	start := func(cwd, file string) int {
		cmd := exec.Command("cat")
		cmd.Dir = cwd
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if file != "" {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd.ExtraFiles = []*os.File{f}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	cwd, fd := start(filepath.Join(dir, "in"), ""), start("/", filepath.Join(dir, "in", "f"))
	start(dir+"2", "")
	pids := func(dev uint64, but ...int) (pids []int) {
		for _, w := range findWorkers("/proc", dir, dev, append(but, os.Getpid())) {
			if w.name != "cat" {
				t.Errorf("%+v", w)
			}
			pids = append(pids, w.pid)
		}
		return pids
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	want := []int{cwd, fd}
	slices.Sort(want)
	if got := pids(uint64(st.Dev) + 1); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := pids(uint64(st.Dev)+1, cwd); !slices.Equal(got, []int{fd}) {
		t.Errorf("%v, want %v", got, fd)
	}
	if got := pids(uint64(st.Dev)); got != nil {
		t.Errorf("%v on the filesystem that is there", got)
	}
	if got := findWorkers(filepath.Join(dir, "no"), dir, 0, nil); got != nil {
		t.Errorf("%v without /proc", got)
	}
	if got := ourCallers(); got[0] != os.Getpid() || len(got) > 16 {
		t.Errorf("our callers are %v", got)
	}
	said := ""
	warnOfWorkers(func(text string) { said = text }, filepath.Join(dir, "no"))
	if strings.Contains(said, "cat[") {
		t.Error(said)
	}
}
