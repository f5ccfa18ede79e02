package knowledge

import (
	"slices"
	"time"

	"latchfs/lockmgr"
)

// Key is a name under which versions are counted. It is opaque.
type Key string

// Stamp tells a version from every other version of the same key. The zero Stamp
// stands for no file.
type Stamp struct {
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"` // in nanoseconds since 1970
}

// Who is a process with those who learn what it learns: its relatives, the nearest
// first.
type Who struct {
	Self      lockmgr.Owner
	Relatives []lockmgr.Owner
	// Above are its further ancestors, up to the launcher or the interactive shell
	// that its relatives end at. They learn nothing: that they are ancestors keeps its
	// work from being somebody else's to them.
	Above []lockmgr.Owner
	// Shell is the interactive shell at whose prompt the process was started, and
	// zero below a script. It learns nothing; it only tells that two commands were
	// typed at one prompt (Basis.IsUndo).
	Shell lockmgr.Owner
}

// IsNobody reports whether it is not known which process it is: nobody learns anything.
func (w Who) IsNobody() bool { return w.Self == (lockmgr.Owner{}) }

// chain lists the process and its relatives, nearest first.
func (w Who) chain() []lockmgr.Owner {
	return append([]lockmgr.Owner{w.Self}, w.Relatives...)
}

// family is whose work something is: the chain, and the shell.
func (w Who) family() []lockmgr.Owner {
	if w.Shell == (lockmgr.Owner{}) {
		return w.chain()
	}
	return append(w.chain(), w.Shell)
}

// lineage lists the process and all of its ancestors that are known.
func (w Who) lineage() []lockmgr.Owner {
	return append(w.chain(), w.Above...)
}

// Author is who made a version, for people to read.
type Author struct {
	PID       int32     `json:"pid,omitempty"` // 0: unknown
	Program   string    `json:"program,omitempty"`
	Actor     string    `json:"actor,omitempty"`
	UID       uint32    `json:"-"` // whose label Actor is
	Operation string    `json:"operation,omitempty"`
	Time      time.Time `json:"time"`
}

// isUnknown reports whether nobody knows who it is.
func (a *Author) isUnknown() bool { return a.PID == 0 && a.Program == "" }

// Change is one version and who made it.
type Change struct {
	Number uint64
	Stamp  Stamp
	Author Author
	owners []lockmgr.Owner // whose work it is: see Who.family
	above  []lockmgr.Owner // and their further ancestors
	added  bool            // it was made of the version before by appending to it
}

// madeBy reports whether a process, or a descendant of it, has made the version.
func (c *Change) madeBy(o lockmgr.Owner) bool {
	return slices.Contains(c.owners, o) || slices.Contains(c.above, o)
}

// Counts says whose knowledge decides.
type Counts int

const (
	// Readers decide: the nearest process that has ever read the file. A process
	// that only writes it has nothing to lose.
	Readers Counts = iota
	// Makers decide, too: the nearest process that has read or made the file.
	Makers
)

// Basis is what the decider knows of a key that a process is about to replace. The
// decider is the nearest process on the chain that knows the file at all.
type Basis struct {
	// Key is the key that was asked for.
	Key Key
	// Known is whether there is a decider.
	Known bool
	// Stale is whether somebody else has changed the file since: a process that is
	// neither the decider nor a descendant of it.
	Stale bool
	// Insists is whether the decider was refused for that before, one second to ten
	// minutes ago, and has learned nothing since; the second counts from its last refusal,
	// unless it has been refused for a minute.
	Insists bool
	// ForAnother is whether that was a refusal of somebody else, who had put in place what the
	// decider had written: it counts for whoever does that again, and not for the decider.
	ForAnother bool
	// Absent is whether there was no file when By looked.
	Absent bool
	// Made is whether By has made the known version, and never read the file.
	Made bool
	// Used is whether By has not read the file, and has used a descriptor of it: see Use.
	Used bool
	// Own is whether By, or a descendant of it, has made the known version.
	Own bool
	// Version and Current are the numbers of the known version and the current.
	Version, Current uint64
	// Stamp tells the known version; the zero Stamp if it is too long ago to tell.
	Stamp Stamp
	// By is the decider, At when it learned of the known version.
	By lockmgr.Owner
	At time.Time
	// Newer is the last change by somebody else. It is set if Stale is.
	Newer Change
	// Since are the versions after the known one, the oldest first, as far as they
	// are remembered. It is set if Stale is.
	Since []Change
}

// Nearer returns the one of two bases, of two keys of one file, that counts for a
// chain: that of the nearer decider, and of one decider what it has learned last.
func (b Basis) Nearer(o Basis, chain []lockmgr.Owner) Basis {
	switch {
	case !b.Known || !o.Known:
		if o.Known {
			return o
		}
		return b
	case b.By != o.By:
		if slices.Index(chain, o.By) < slices.Index(chain, b.By) {
			return o
		}
		return b
	case b.Stale && !o.Stale:
		return o // it has seen what the file holds, under whatever name
	case o.Stale && !b.Stale:
		return b
	case o.At.After(b.At):
		return o
	}
	return b
}
