package filing

import (
	"sync"

	"latchfs/fs/ctl"
	"latchfs/fs/filed"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
	"latchfs/lockmgr/proc"
)

// Name is a name in a directory of the mount. What it tells is what it is when it is asked.
type Name interface {
	// Path is where the name is, relative to the data directory.
	Path() string
	// Dir is a descriptor of the directory that has the name.
	Dir() int
	// Base is the name in that directory.
	Base() string
	// Up is the name of that directory; nil if it has none, as the data directory.
	Up() Name
	// Place is where a claim of the name is; nil if nobody refers to the name, so that
	// there is no claim.
	Place() filed.Place
	// Keep is Place with a reference, which Engine.Left gives back. It is never nil.
	Keep() filed.Place
}

// Claimant is a process that writes claim files.
type Claimant interface {
	ctl.Caller
	// Family are its relatives.
	Family() proc.Family
	// IsDaemon reports whether it is latchfs itself.
	IsDaemon() bool
}

// Policy says which files are claim files; *policy.Policy does.
type Policy interface {
	HasClaimFiles() bool
	ClaimFile(path string) *lockfile.Convention
}

// Room has the claims; *filed.Room says what each method does.
type Room interface {
	Count() int
	IsAt(p filed.Place) bool
	Has(p filed.Place) bool
	Disown(p filed.Place)
	Gone(p filed.Place)
	File(f *filed.Filing) error
	May(f *filed.Filing) error
	MayRemove(p filed.Place) error
	Holders() map[filed.Place][]filed.Member
}

// Entry is what a directory has.
type Entry struct {
	Name  string
	IsDir bool
}

// Engine is the filesystem that a Clerk works for.
type Engine interface {
	// HoldPaths keeps all directories where they are, until ReleasePaths.
	HoldPaths()
	ReleasePaths()
	// Child is the place of a name in a directory, of the data directory if that is nil,
	// with a reference.
	Child(dir filed.Place, name string) filed.Place
	// Again takes another reference on a place, and Left gives one back.
	Again(p filed.Place) filed.Place
	Left(p filed.Place)
	// PathOf is where a place is.
	PathOf(p filed.Place) string
	// List has the entries of an open directory, but itself and the one above.
	List(fd int) ([]Entry, error)
	// Reserved reports whether a name is not for users.
	Reserved(name string) bool
	// Owner stands for the owner of a file who is not known otherwise.
	Owner(uid, gid uint32) Claimant
	// Ignored is told why a claim file claims nothing; by is nil when the mount starts.
	Ignored(by Claimant, file string, format lockfile.Format, why error)
	// Warn writes a line about a file, or a directory, to the log of the daemon.
	Warn(file, line string, why error)
	// ReadState and WriteState are for the file of the state directory that Save writes.
	ReadState(name string) ([]byte, error)
	WriteState(name string, data []byte) error
}

// Config is what a Clerk stands on.
type Config struct {
	Policy Policy
	Room   Room
	Engine Engine
	Boot   string               // in which process ids mean something
	Now    func() lockmgr.Birth // of a process that is born at the moment
}

// Clerk tells a Room of the claim files of a mount.
type Clerk struct {
	c  Config
	mu sync.Mutex // held while the file of the state directory is written
}

// New makes a Clerk.
func New(c Config) *Clerk { return &Clerk{c: c} }

// Any reports whether the policy knows claim files.
func (k *Clerk) Any() bool { return k.c.Policy.HasClaimFiles() }

// rule is the policy's rule for the claim file at a path, nil if it is none.
func (k *Clerk) rule(path string) *lockfile.Convention {
	if !k.Any() {
		return nil
	}
	rule := k.c.Policy.ClaimFile(path)
	if rule == nil || rule.Format == lockfile.Flock {
		return nil
	}
	return rule
}

// found is the claim file that a change of a name is about.
type found struct {
	at   Name
	rule *lockfile.Convention // may be nil where a claim stands: a directory above has got another name since
	// inside: the changed name is in at, a directory that is a claim.
	inside bool
}

// find is the claim file that a change of a name is about: that name or, of what is in a
// directory that is a claim, the directory.
func (k *Clerk) find(n Name) (found, bool) {
	if !k.Any() {
		return found{}, false
	}
	if rule := k.rule(n.Path()); rule != nil || k.c.Room.IsAt(n.Place()) {
		return found{at: n, rule: rule}, true
	}
	up := n.Up()
	if up == nil {
		return found{}, false
	}
	if rule := k.rule(up.Path()); rule != nil && rule.Format == lockfile.OwnerDir {
		return found{at: up, rule: rule, inside: true}, true
	}
	return found{}, false
}

// target is what the lock of a claim file is on: the file, and what it stands for.
func target(rule *lockfile.Convention, file string) (lockkey.Target, error) {
	t, err := rule.Target(file)
	if err != nil {
		return lockkey.Target{}, err
	}
	var on lockkey.Target
	if rule.Format == lockfile.OwnerDir {
		on.Trees = []string{file}
	} else {
		on.Paths = []string{file}
	}
	switch t.Covers {
	case lockfile.CoversDirectory:
		on.Trees = append([]string{t.Path}, on.Trees...)
	case lockfile.CoversFile:
		on.Paths = append([]string{t.Path}, on.Paths...)
	case lockfile.CoversName:
		on.Names = []string{t.Name}
	}
	return on, nil
}

// chainOf is who may have a claim that a process files; nobody if it is not known.
func (k *Clerk) chainOf(by Claimant) []filed.Member {
	if by.Foreign() {
		return nil
	}
	return chain(by.Owner(), by.Ancestors(), by.Family(), k.c.Now())
}

// chain is who may have a claim that a process files: itself and those of its ancestors
// (up), the nearest first, that are of its family, as far as an interactive shell, which
// may. Each may with its descendants that were born with the one on the way to the
// process, or later; the process with those that are born from now on.
func chain(o lockmgr.Owner, up []lockmgr.Ancestor, family proc.Family, now lockmgr.Birth) []filed.Member {
	of := make(map[lockmgr.Owner]bool, len(family.Relatives)+len(family.Above)+1)
	of[family.Shell] = true
	for _, list := range [][]lockmgr.Owner{family.Relatives, family.Above} {
		for _, a := range list {
			of[a] = true
		}
	}
	list := []filed.Member{{Owner: o, Since: now}}
	for _, a := range up {
		if of[a.Owner] {
			since := a.Child
			since.Tick--
			list = append(list, filed.Member{Owner: a.Owner, Since: since})
		}
	}
	return list
}
