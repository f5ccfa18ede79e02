package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// fact is one line about the machine and the run.
type fact struct{ Name, Value string }

// machineFacts describes the machine without naming it.
func machineFacts(dir string) []fact {
	facts := []fact{
		{"kernel", kernelRelease()},
		{"processor", fmt.Sprintf("%s, %d cores, %s memory", processor(), runtime.NumCPU(), memory())},
		{"filesystem", filesystem(dir)},
		{"Go", runtime.Version()},
	}
	if file, directory, err := syncCost(dir); err != nil {
		facts = append(facts, fact{"fsync", err.Error()})
	} else {
		facts = append(facts, fact{"fsync, plain directory", fmt.Sprintf(
			"%s for a rewritten 4 KiB, %s for the directory after a rename", figures.Time(file), figures.Time(directory))})
	}
	return facts
}

// kernelRelease leaves out the local version, which may name the machine's owner.
func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return unix.ByteSliceToString(u.Sysname[:]) + " " + release + " " + unix.ByteSliceToString(u.Machine[:])
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err.Error()
	}
	for l := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func memory() string {
	var i unix.Sysinfo_t
	if err := unix.Sysinfo(&i); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.0f GiB", float64(i.Totalram)*float64(i.Unit)/(1<<30))
}

func filesystem(dir string) string {
	m, err := mountOf(dir)
	if err != nil {
		return err.Error()
	}
	note := ""
	switch {
	case m.Type == "tmpfs":
		note = ", where nothing is ever synced: choose another -dir"
	case m.Type == "ext4" && !hasJournal(m.Source):
		note = ", without a journal"
	case strings.HasPrefix(filepath.Base(m.Source), "loop"):
		note = ", in an image on a loop device"
		if below, err := mountOf(filepath.Dir(dir)); err == nil && below.Type == "tmpfs" {
			note += ", in memory: a sync waits for no disk"
		}
	}
	return m.Type + " (" + m.Options + ")" + note
}

// loadAverage of the last minute: a shared machine shows here.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// syncCost measures what durability costs on the plain filesystem, as the
// median of a few tries: most safe saves are little else.
func syncCost(dir string) (file, directory float64, err error) {
	const tries = 21
	path := filepath.Join(dir, "sync-cost")
	page := make([]byte, load.PageSize)
	files, dirs := make([]float64, tries), make([]float64, tries)
	for i := range tries {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return 0, 0, err
		}
		_, err = f.WriteAt(page, 0)
		start := time.Now()
		if err == nil {
			err = f.Sync()
		}
		files[i] = float64(time.Since(start))
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(path, path+"-renamed")
		}
		start = time.Now()
		if err == nil {
			err = load.SyncDir(dir)
		}
		dirs[i] = float64(time.Since(start))
		if err == nil {
			err = os.Rename(path+"-renamed", path)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return figures.Median(files), figures.Median(dirs), os.Remove(path)
}
