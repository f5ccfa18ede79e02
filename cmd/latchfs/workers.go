package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

// Bounds of the look at who works in a directory: it must not delay a mount that
// somebody waits for, and a line that nobody can read helps nobody.
const (
	workersTime  = 2 * time.Second
	workersNamed = 8
)

// worker is a process.
type worker struct {
	pid  int
	name string
}

// String names it as .locks/status does.
func (w worker) String() string { return program(w.name, int32(w.pid)) }

// warnOfWorkers says which processes work in a directory since before it was
// mounted over: what they do there goes past the mount. What cannot be looked at is
// left out.
func warnOfWorkers(say func(string), mountpoint string) {
	var st unix.Stat_t
	if unix.Stat(mountpoint, &st) != nil {
		return
	}
	found := findInTime("/proc", mountpoint, uint64(st.Dev), ourCallers(), workersTime+workersTime/4)
	if len(found) == 0 {
		return
	}
	var names []string
	for _, w := range found[:min(len(found), workersNamed)] {
		names = append(names, w.String())
	}
	if more := len(found) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	verb, they := "work", "are"
	if len(found) == 1 {
		verb, they = "works", "is"
	}
	say(fmt.Sprintf("%s %s in %s from before and %s not protected: cd there again, or start it again",
		strings.Join(names, ", "), verb, printable.Line(mountpoint), they))
}

// findInTime is findWorkers for as long as a mount may wait: a process can keep
// whoever looks at its links, with a filesystem of its own that does not answer.
func findInTime(proc, dir string, dev uint64, but []int, limit time.Duration) []worker {
	found := make(chan []worker, 1)
	go func() { found <- findWorkers(proc, dir, dev, but) }()
	select {
	case list := <-found:
		return list
	case <-time.After(limit):
		return nil
	}
}

// findWorkers are the processes, but for some, whose root or working directory, or
// a file that they have open, is below dir and not on the filesystem dev that is
// mounted there now.
func findWorkers(proc, dir string, dev uint64, but []int) []worker {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil
	}
	var found []worker
	until := time.Now().Add(workersTime)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || slices.Contains(but, pid) {
			continue
		}
		if time.Now().After(until) {
			break
		}
		if worksBelow(filepath.Join(proc, e.Name()), dir, dev, until) {
			found = append(found, worker{pid, comm(filepath.Join(proc, e.Name()))})
		}
	}
	slices.SortFunc(found, func(a, b worker) int { return a.pid - b.pid })
	return found
}

// worksBelow tells whether one of the links of a process leads below dir, past dev, as
// far as can be told until then.
func worksBelow(process, dir string, dev uint64, until time.Time) bool {
	links := []string{filepath.Join(process, "cwd"), filepath.Join(process, "root")}
	if open, err := os.ReadDir(filepath.Join(process, "fd")); err == nil {
		for _, fd := range open {
			links = append(links, filepath.Join(process, "fd", fd.Name()))
		}
	}
	return slices.ContainsFunc(links, func(link string) bool {
		if time.Now().After(until) {
			return false
		}
		to, err := os.Readlink(link)
		if err != nil || to != dir && !strings.HasPrefix(to, strings.TrimSuffix(dir, "/")+"/") {
			return false
		}
		// Without a request to whoever serves the file: that may be a machine that is gone.
		var st unix.Statx_t
		err = unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
		return err == nil && unix.Mkdev(st.Dev_major, st.Dev_minor) != dev
	})
}

// comm is the name of a process.
func comm(process string) string {
	b, err := os.ReadFile(filepath.Join(process, "comm"))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(b))
}

// ourCallers are this process and those above it that are there for the mount alone:
// the command that waits for it, mount(8), sudo.
func ourCallers() []int {
	pids := []int{os.Getpid()}
	for pid := os.Getppid(); pid > 1 && len(pids) < 16; {
		process := filepath.Join("/proc", strconv.Itoa(pid))
		switch name := comm(process); {
		case name == "latchfs", name == "sudo", name == "doas", strings.HasPrefix(name, "mount"):
		default:
			return pids
		}
		pids = append(pids, pid)
		_, parent, err := stateOf(process)
		if err != nil {
			return pids
		}
		pid = parent
	}
	return pids
}

// stateOf is the state of a process, and the id of its parent (proc(5)).
func stateOf(process string) (state string, parent int, err error) {
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return "", 0, err
	}
	// The name, in parentheses, may hold anything; the state and the parent's id follow.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return "", 0, fmt.Errorf("%s/stat has no parent", process)
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err
}
