package proc

import (
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
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
	// Above are the ancestors beyond those three, up to where the list ends, and of an
	// orphan those that have started it, as far as that can be told. They share nothing,
	// but what the process does is not a stranger's work to them.
	Above []lockmgr.Owner
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

// shells are the programs at whose prompt somebody may type.
var shells = map[string]bool{
	"ash": true, "bash": true, "busybox": true, "csh": true, "dash": true,
	"elvish": true, "fish": true, "ksh": true, "ksh93": true, "mksh": true,
	"nu": true, "rbash": true, "sh": true, "tcsh": true, "xonsh": true,
	"yash": true, "zsh": true,
}

// isPrompt reports of a shell whether somebody types at its prompt: it has a terminal
// and does job control. Shells with job control ignore the terminal's stop signals,
// and no others do: scripts, subshells and `sh -c` have them at their default.
func isPrompt(st *procfs.Stat) bool {
	return st.TTY != 0 && sigset(st.SigIgnore)&sigs(unix.SIGTSTP, unix.SIGTTOU) != 0
}

// Family finds the relatives of a process. What was found is believed for a second.
//
// It is asked for every process that opens a file, most of which live for a
// millisecond: what is known of the parent saves the way up.
func (r *Reader) Family(o lockmgr.Owner) Family {
	if o.PID <= 0 {
		return Family{}
	}
	if k := r.families.get(o); k != nil {
		return k.family
	}
	if k := r.adopt(o); k != nil {
		r.families.put(k)
		return k.family
	}
	chain := r.ancestry(o.PID)
	if len(chain) == 0 || chain[0].start != o.Start {
		return Family{}
	}
	for n := range min(len(chain), 2) { // the parent's is for its other children
		k := chain[n]
		r.families.put(&knownFamily{o: k.leader(), family: r.familyOf(chain[n:]), launcher: k.launcher, seen: now()})
	}
	return r.familyOf(chain)
}

// pids are those of a process and its ancestors.
func pids(chain []*known) []int32 {
	list := make([]int32, len(chain))
	for i, k := range chain {
		list[i] = k.tid
	}
	return list
}

// familyOf is the family of the first of a process and its ancestors.
func (r *Reader) familyOf(chain []*known) Family {
	f := Family{Interactive: chain[0].shell}
	orphan, starters := r.forks.Orphan(pids(chain))
	end := len(chain)
	for i, k := range chain[1:] {
		near := len(f.Relatives) < maxRelatives
		if k.shell && near {
			f.Shell = k.leader()
		}
		if (k.tid <= 1 || k.launcher) && orphan < 0 {
			f.add(r.leaders(chain[i], k)...)
			f.add(r.before(chain[i])...)
		}
		if k.tid <= 1 || k.shell || k.launcher {
			end = i + 1
			break
		}
		if near {
			f.Relatives = append(f.Relatives, k.leader())
		} else {
			f.Above = append(f.Above, k.leader())
		}
	}
	if orphan >= 0 && orphan < end {
		f.add(r.living(chain[orphan], starters)...)
	}
	f.Relatives, f.Above = slices.Clip(f.Relatives), slices.Clip(f.Above)
	return f
}

// add makes processes ancestors that share nothing.
func (f *Family) add(list ...lockmgr.Owner) {
	for _, o := range list {
		if !slices.Contains(f.Relatives, o) && !slices.Contains(f.Above, o) {
			f.Above = append(f.Above, o)
		}
	}
}

// living are those of the starters of an orphan that have not ended, up to a launcher or
// an interactive shell.
func (r *Reader) living(orphan *known, starters []int32) []lockmgr.Owner {
	var list []lockmgr.Owner
	start := orphan.start
	for _, pid := range starters {
		var k *known
		if chain := r.ancestry(pid); len(chain) > 0 {
			k = chain[0]
		} else if k = r.known.get(pid); k == nil {
			continue
		}
		if k.start > start {
			continue // it has the pid of one that has ended
		}
		if k.tid <= 1 || k.shell || k.launcher {
			break
		}
		list, start = append(list, k.leader()), k.start
	}
	return list
}

// leaders are the processes that have most likely started an orphan, where nothing but
// /proc tells: the leader of its process group with its ancestors, if that is older and
// below the same reaper. The background jobs of a script stay in the script's group.
func (r *Reader) leaders(orphan, reaper *known) []lockmgr.Owner {
	if orphan.pgrp <= 1 || orphan.pgrp == orphan.tid {
		return nil
	}
	chain := r.ancestry(orphan.pgrp)
	if len(chain) == 0 || chain[0].start > orphan.start {
		return nil
	}
	var list []lockmgr.Owner
	ended := false
	for _, k := range chain {
		if k.tid == reaper.tid {
			return list
		}
		ended = ended || k.shell || k.launcher
		if !ended {
			list = append(list, k.leader())
		}
	}
	return nil
}

// before are the ancestors that an orphan had when it was last asked for, if it was not
// one then.
func (r *Reader) before(orphan *known) []lockmgr.Owner {
	k := r.families.slot(orphan.leader()).Load()
	if k == nil || k.o != orphan.leader() {
		return nil
	}
	return slices.Concat(k.family.Relatives, k.family.Above)
}

// adopt makes a family of what is known of the parent's; nil if that is too little.
func (r *Reader) adopt(o lockmgr.Owner) *knownFamily {
	self, err := r.remembered(o.PID)
	if err != nil || self.start != o.Start {
		return nil
	}
	parent := r.known.get(self.ppid)
	if parent == nil || now()-parent.seen > parentFor || parent.start > self.start {
		return nil
	}
	up := r.families.get(parent.leader())
	if up == nil {
		return nil
	}
	if orphan, _ := r.forks.Orphan([]int32{self.tid, parent.tid}); orphan == 0 {
		return nil
	}
	k := &knownFamily{o: o, family: Family{Interactive: self.shell}, launcher: self.launcher, seen: up.seen}
	switch {
	case parent.tid <= 1 || up.launcher:
		if self.pgrp != self.tid || r.before(self) != nil {
			return nil // see leaders and before
		}
	case up.family.Interactive:
		k.family.Shell = up.o
	default:
		near := up.family.Relatives
		n := min(len(near), maxRelatives-1)
		k.family.Relatives = append([]lockmgr.Owner{up.o}, near[:n]...)
		k.family.Above = slices.Concat(near[n:], up.family.Above)
		if len(k.family.Relatives) < maxRelatives {
			k.family.Shell = up.family.Shell
		}
	}
	return k
}

const (
	// familyFor is how long a family is believed: a parent may die, and then who
	// reads has one relative fewer, or may become another program.
	familyFor = time.Second
	// parentFor is how long a pid is believed to be the same process, if a child of
	// it that was just looked at says so, too.
	parentFor = 10 * trustFor
)

// knownFamily is a family that was found. The value is immutable.
type knownFamily struct {
	o        lockmgr.Owner
	family   Family
	launcher bool // o is one
	seen     time.Duration
}

// familyCache has one slot for each of so many pids; neighbours do not meet.
type familyCache [1024]atomic.Pointer[knownFamily]

func (c *familyCache) slot(o lockmgr.Owner) *atomic.Pointer[knownFamily] {
	return &c[uint32(o.PID)%uint32(len(c))]
}

func (c *familyCache) put(k *knownFamily) { c.slot(k.o).Store(k) }

// get returns what is believed of a process, or nil.
func (c *familyCache) get(o lockmgr.Owner) *knownFamily {
	if k := c.slot(o).Load(); k != nil && k.o == o && now()-k.seen < familyFor {
		return k
	}
	return nil
}
