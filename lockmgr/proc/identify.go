package proc

import (
	"path"
	"strings"

	"latchfs/lockmgr/proc/internal/procfs"
	"latchfs/lockmgr/proc/internal/script"
)

// Program is what a process runs: the same for every process that runs it, and
// across restarts. What could not be read is "".
type Program struct {
	Comm string // the kernel's name for the process, up to 15 bytes
	Exe  string // the absolute path of the executable
	// Script is what an interpreter runs: the absolute path of the script; "-m
	// MODULE"; "-c HASH" for code among the arguments; "-" for code on standard
	// input. For a program of many names in one file (busybox) it is the name.
	Script string
}

// String is the executable and the script, "/usr/bin/python3.13 /srv/edit.py", or
// the name where they cannot be read.
func (p Program) String() string {
	switch {
	case p.Exe == "":
		return p.Comm
	case p.Script == "":
		return p.Exe
	}
	return p.Exe + " " + p.Script
}

// maxArgs bounds the arguments that Identify looks at, in bytes.
const maxArgs = 16 << 10

// Identify tells which program a process runs. It believes the arguments, which
// are the process's own to change: good for habits, not for rights. Of a process
// in execve, and of another user's where that is not allowed, only Comm is known.
func (r *Reader) Identify(pid int32) Program {
	p, _ := patiently(r, pid, func(*asking) (Program, error) {
		p := Program{Comm: r.Program(pid)}
		exe, err := r.root.Link(procfs.PIDPath(pid, "exe"))
		if err != nil {
			return p, nil
		}
		p.Exe = strings.TrimSuffix(exe, " (deleted)")
		args, err := r.root.ReadUpTo(procfs.PIDPath(pid, "cmdline"), maxArgs)
		if err != nil {
			return p, nil
		}
		cwd := func() string {
			dir, _ := r.root.Link(procfs.PIDPath(pid, "cwd"))
			return dir
		}
		p.Script = script.Of(path.Base(p.Exe), procfs.SplitArgs(args), cwd)
		return p, nil
	})
	if p.Comm == "" {
		p.Comm = r.Program(pid) // what was asked got stuck
	}
	return p
}
