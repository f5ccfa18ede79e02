package proc

import (
	"slices"
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
)

// maxRelatives is how many ancestors learn what a process reads. Three joins every
// shape of script that people write (HOW-TOOLS-WRITE, "Attribution").
const maxRelatives = 3

// Family is a process with those of its ancestors that share what it knows.
type Family struct {
	// Relatives are up to three ancestors, the nearest first. The list ends below
	// an interactive shell, a launcher (what starts programs that have nothing to
	// do with each other: an init, cron, sshd, a terminal multiplexer) and the
	// first process. It is shared: not to be changed.
	Relatives []lockmgr.Owner
	// Shell is the interactive shell at which the list ends; zero if none.
	Shell lockmgr.Owner
	// Interactive is whether the process is itself such a shell.
	Interactive bool
}

// launchers are programs that start unrelated ones.
var launchers = map[string]bool{
	"(sd-pam)": true, "agetty": true, "alacritty": true, "anacron": true, "atd": true, "conmon": true, "containerd-shim": true,
	"cron": true, "crond": true, "dockerd": true, "dropbear": true, "fcron": true, "foot": true, "gnome-terminal-": true,
	"init": true, "kitty": true, "konsole": true, "login": true, "mosh-server": true, "openrc-run": true,
	"runsv": true, "s6-supervise": true, "screen": true, "sshd": true, "sshd-session": true, "supervisord": true,
	"systemd": true, "tini": true, "tmux": true, "tmux: server": true, "wezterm-gui": true, "xterm": true,
}

// Family finds the relatives of a process. What was found is believed for a second.
func (r *Reader) Family(o lockmgr.Owner) Family {
	if o.PID <= 0 {
		return Family{}
	}
	slot := &r.families[uint32(o.PID)%uint32(len(r.families))]
	if k := slot.Load(); k != nil && k.owner == o && now()-k.seen < familyFor {
		return k.family
	}
	f := r.relate(o)
	slot.Store(&knownFamily{o, f, now()})
	return f
}

// familyFor is how long a family is believed: a parent may die, and then who reads
// has one relative fewer.
const familyFor = time.Second

// knownFamily is a family that was found. The value is immutable.
type knownFamily struct {
	owner  lockmgr.Owner
	family Family
	seen   time.Duration
}

// familyCache has one slot for each of so many pids; neighbours do not meet.
type familyCache [1024]atomic.Pointer[knownFamily]

func (r *Reader) relate(o lockmgr.Owner) Family {
	f := Family{Interactive: r.kindOf(o).shell}
	for _, a := range r.Lineage(o.PID) {
		if a.Owner.PID <= 1 || len(f.Relatives) == maxRelatives {
			break
		}
		k := r.kindOf(a.Owner)
		if k.shell {
			f.Shell = a.Owner
		}
		if k.shell || k.launcher {
			break
		}
		f.Relatives = append(f.Relatives, a.Owner)
	}
	f.Relatives = slices.Clip(f.Relatives)
	return f
}

// kind is what matters of an ancestor. The value is immutable.
type kind struct {
	owner    lockmgr.Owner
	shell    bool // an interactive shell
	launcher bool
	seen     time.Duration
}

type kindCache [1024]atomic.Pointer[kind]

// kindOf looks what kind of program an ancestor is. A process may become another
// program, so that is not believed for long.
func (r *Reader) kindOf(o lockmgr.Owner) kind {
	slot := &r.kinds[uint32(o.PID)%uint32(len(r.kinds))]
	if k := slot.Load(); k != nil && k.owner == o && now()-k.seen < familyFor {
		return *k
	}
	name := r.Program(o.PID)
	k := kind{owner: o, shell: shells[name] && r.Interactive(o.PID), launcher: launchers[name], seen: now()}
	slot.Store(&k)
	return k
}
