package family

import (
	"slices"

	"latchfs/lockmgr"
)

// MaxRelatives is how many ancestors learn what a process reads. Three joins every
// shape of script that people write (HOW-TOOLS-WRITE, "Attribution").
const MaxRelatives = 3

// Member is a process as one of a chain, each the parent of the one before.
type Member struct {
	Owner lockmgr.Owner
	Kind  Kind
}

// IsTop reports whether m starts what has nothing to do with each other: it is a launcher
// or the first process.
func (m Member) IsTop() bool { return m.Owner.PID <= 1 || m.Kind == Launcher }

// Ends reports whether m is not one of the family of who is below it: it is at the top, or
// somebody types at its prompt.
func (m Member) Ends() bool { return m.IsTop() || m.Kind == Prompt }

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

// Of is the family of the first of a chain. It ends below chain[end], or there is no more
// of the chain.
func Of(chain []Member) (f Family, end int) {
	f.Interactive = chain[0].Kind == Prompt
	for end = 1; end < len(chain) && !chain[end].Ends(); end++ {
		if m := chain[end]; len(f.Relatives) < MaxRelatives {
			f.Relatives = append(f.Relatives, m.Owner)
		} else {
			f.Above = append(f.Above, m.Owner)
		}
	}
	if end < len(chain) && chain[end].Kind == Prompt && len(f.Relatives) < MaxRelatives {
		f.Shell = chain[end].Owner
	}
	f.Relatives, f.Above = slices.Clip(f.Relatives), slices.Clip(f.Above)
	return f, end
}

// OfChild is the family of a process of some kind, of that of its parent, which is no top.
func (f *Family) OfChild(parent lockmgr.Owner, kind Kind) Family {
	child := Family{Interactive: kind == Prompt}
	if f.Interactive {
		child.Shell = parent
		return child
	}
	n := min(len(f.Relatives), MaxRelatives-1)
	child.Relatives = append([]lockmgr.Owner{parent}, f.Relatives[:n]...)
	child.Above = slices.Concat(f.Relatives[n:], f.Above)
	if len(child.Relatives) < MaxRelatives {
		child.Shell = f.Shell
	}
	return child
}

// Add returns the list of ancestors that share nothing, with some more.
func (f *Family) Add(more ...lockmgr.Owner) []lockmgr.Owner {
	above := f.Above
	for _, o := range more {
		if !slices.Contains(f.Relatives, o) && !slices.Contains(above, o) {
			above = append(above, o)
		}
	}
	return slices.Clip(above)
}

// LeadersOf are those of an orphan, by the chain of the leader of its process group: they
// have most likely started it, where nothing but /proc tells. The leader is older, and
// below the same reaper: the background jobs of a script stay in the script's group.
// Whoever is above a launcher or a prompt has not.
func LeadersOf(orphan, reaper lockmgr.Owner, chain []Member) (list []lockmgr.Owner) {
	if len(chain) == 0 || chain[0].Owner.Start > orphan.Start {
		return nil
	}
	ended := false
	for _, m := range chain {
		if m.Owner.PID == reaper.PID {
			return list
		}
		if ended = ended || m.Kind != Ordinary; !ended {
			list = append(list, m.Owner)
		}
	}
	return nil
}
