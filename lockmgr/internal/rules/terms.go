package rules

// Terms are what decides about whom a lock conflicts with.
type Terms struct {
	Mode    Mode
	Class   Class
	Gate    bool       // a session lock that has heirs, but no guests
	Weak    bool       // binds those alone who ask for the same
	Client  uint64     // the open file description, or the fcntl lock's owner
	Range   Range      // Whole unless Class is Posix
	Owner   Owner      // the process that the lock belongs to
	Lineage []Ancestor // of the owner, nearest first
	Since   Birth      // descendants of the owner born after it are heirs
}

// KinOf reports whether l, as requester, is kin to x: of the same owner, or an
// heir of x, that is a descendant born after x was asked for. It is not
// symmetric: a parent inherits nothing from its child.
func (l *Terms) KinOf(x *Terms) bool {
	if l.Owner == x.Owner {
		return true
	}
	if l.Owner.PID == 0 || x.Owner.PID == 0 {
		return false
	}
	for i := range l.Lineage {
		if a := &l.Lineage[i]; a.Owner == x.Owner {
			return a.Child.After(x.Since)
		}
	}
	return false
}

// Descends reports whether l is o's or a descendant's of it, whenever born.
func (l *Terms) Descends(o Owner) bool {
	if l.Owner == o {
		return true
	}
	for i := range l.Lineage {
		if l.Lineage[i].Owner == o {
			return true
		}
	}
	return false
}

// Conflicts reports whether l, which comes later, must wait for x where they meet.
func (l *Terms) Conflicts(x *Terms) bool {
	switch {
	case l.Mode.GoesWith(x.Mode):
		return false
	case (l.Weak || x.Weak) && !l.advises(x):
		return false
	case l.Class == Session || x.Class == Session:
		return !l.KinOf(x)
	case l.Class != x.Class:
		return false // "flock and fcntl locks have no effect on each other"
	case l.Client == x.Client:
		return false
	case l.Class == Posix:
		return l.Range.Overlaps(x.Range)
	}
	return true
}

// advises reports whether two locks, of which one is weak, are of one kind.
func (l *Terms) advises(x *Terms) bool {
	return l.Class == x.Class && (l.Class != Session || l.Gate && x.Gate)
}

// Hosts reports whether the held lock l is a session of which the requester a and
// the holder b are guests: both are kin to it, and neither is stronger. A session
// keeps all others out, so its guests need not wait for each other: the children of
// one writer join its session side by side. A gate has no guests.
func (l *Terms) Hosts(a, b *Terms) bool {
	return l.Class == Session && l.Mode >= max(a.Mode, b.Mode) && !l.Gate && !l.Weak &&
		a.KinOf(l) && b.KinOf(l)
}

// MayBeGuests reports whether two locks could be guests of one session. Between
// client locks kinship does not count.
func (l *Terms) MayBeGuests(x *Terms) bool { return l.Class == Session || x.Class == Session }

// Joins reports whether the held lock x lets l past those who queue at the same
// key: they may be waiting for x, and x for l. Between client locks kinship
// does not count (see Conflicts).
func (l *Terms) Joins(x *Terms) bool { return !x.Weak && l.MayBeGuests(x) && l.KinOf(x) }

// Fuses reports whether o, an older lock of l's client, becomes one with l when l is
// granted the bytes asked: a flock does, and bytes beside or among those asked for
// when they have the same mode.
func (l *Terms) Fuses(o *Terms, asked Range) bool {
	return o.Class == Flock || o.Mode == l.Mode && o.Weak == l.Weak && o.Range.Touches(asked)
}

// SameClient reports whether two locks are one client's: of one class and client.
func (l *Terms) SameClient(x *Terms) bool { return l.Class == x.Class && l.Client == x.Client }
