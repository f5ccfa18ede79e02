package lockfile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/naming"
)

// Format says how programs write a claim file, and so what the mount reads in
// it.
type Format string

// The formats.
const (
	// Beads: a JSON record with holder, pid, hostname and started_at (SEED B1).
	Beads Format = "beads"
	// Clawdbot: a JSON record with pid, session_id, acquired_at, hostname and
	// operation (SEED W2).
	Clawdbot Format = "clawdbot"
	// LockV1: a JSON record of the lock/v1 specification, with a heartbeat and a
	// TTL of its own (SEED T3).
	LockV1 Format = "lock/v1"
	// OwnerDir: a directory with the files owner and record.json (SEED M5).
	OwnerDir Format = "owner-dir"
	// Flock: the file has no content; a program that has it locked with flock
	// has what it stands for locked (SEED C4).
	Flock Format = "flock"
)

// Covers says what a claim file stands for.
type Covers string

// What a claim file may stand for (SEED "scope").
const (
	// CoversFile: one file, named after the claim file.
	CoversFile Covers = "file"
	// CoversDirectory: the directory in which the claim file lies, with all below it.
	CoversDirectory Covers = "directory"
	// CoversName: a named lock, which is that of no file.
	CoversName Covers = "name"
)

// OnStale says what becomes of a claim file whose holder is gone.
type OnStale string

// The answers to a stale claim file.
const (
	// RemoveStale: the mount removes it for the next program that needs what it
	// covers.
	RemoveStale OnStale = "remove"
	// KeepStale: it stays until somebody forces it (SEED T8).
	KeepStale OnStale = "keep"
)

// Malformed says what a claim file means that cannot be understood.
type Malformed string

// The answers to a malformed claim file (SEED "malformed claim file").
const (
	// MalformedLocked: what it covers is locked, by an unknown holder.
	MalformedLocked Malformed = "locked"
	// MalformedFree: it is no claim.
	MalformedFree Malformed = "free"
)

// Convention declares lock files that programs write by a convention of their own, so
// that the mount holds everybody else to it: one [[claim]] of a policy.
type Convention struct {
	// Glob holds the patterns of the claim files, at least one; any of them
	// suffices. With OwnerDir they match the directory.
	Glob   []string
	Format Format
	Covers Covers
	// Root is the directory in which the claim files of CoversFile mirror the tree:
	// with the root "locks", locks/src/a.c.lock stands for src/a.c. Empty: a claim
	// file lies beside its file.
	Root string
	// Tree is the directory that Root mirrors; "" is the data root.
	Tree string
	// TTL is after how long a claim is stale: without progress (Clawdbot),
	// without a heartbeat where the record names no TTL (LockV1), after the end
	// of its session (OwnerDir). 0 is never.
	TTL time.Duration
	// ForeignTTL is the same for a record of Clawdbot that another host has
	// written; 0 is never.
	ForeignTTL time.Duration
	// OnStale says what becomes of a stale claim file. Flock has none.
	OnStale OnStale
	// Malformed says what a record means that cannot be understood. Flock has
	// none.
	Malformed Malformed

	// origin is where the convention was declared: "policy.toml:12".
	origin string
}

// Origin says where the convention was declared: "FILE:LINE".
func (c *Convention) Origin() string { return c.origin }

// New returns the convention of a [[claim]] that sets its format and nothing else.
func New(format Format) Convention {
	c := Convention{Format: format, OnStale: RemoveStale, Malformed: MalformedLocked}
	switch format {
	case Beads: // SEED B2, B3
	case Clawdbot: // SEED W5, W10
		c.TTL, c.ForeignTTL, c.Malformed = 30*time.Second, 10*time.Second, MalformedFree
	case LockV1: // SEED T4, T8
		c.TTL, c.OnStale = 900*time.Second, KeepStale
	case OwnerDir: // SEED M6
		c.TTL = 5 * time.Minute
	case Flock: // the kernel ends it with its holder
		c.OnStale, c.Malformed = "", ""
	}
	return c
}

// Target is what a claim file stands for.
type Target struct {
	Covers Covers
	// Path is the file of CoversFile, and the directory of CoversDirectory; ""
	// is the data root.
	Path string
	// Name is the lock name of CoversName.
	Name string
}

// String describes the target for people.
func (t Target) String() string {
	switch {
	case t.Covers == CoversName:
		return "the named lock " + t.Name
	case t.Covers == CoversFile:
		return "the file " + t.Path
	case t.Path == "":
		return "the whole mount"
	}
	return "the directory " + t.Path
}

// Target returns what the claim file at a path stands for; the path is one that a glob of
// the convention matches. An error says why the path stands for nothing, so that the file
// is no claim.
func (c *Convention) Target(path string) (Target, error) {
	t := Target{Covers: c.Covers}
	if c.Covers == CoversDirectory {
		t.Path = naming.Dir(path)
		return t, nil
	}
	base := glob.Base(path)
	dot := strings.LastIndexByte(base, '.')
	if dot <= 0 {
		return t, errors.New("nothing is left of the name without its extension")
	}
	if c.Covers == CoversName {
		t.Name = base[:dot]
		if !naming.Valid(t.Name) {
			return t, fmt.Errorf("bad name %q: %s", t.Name, naming.Rule)
		}
		return t, nil
	}
	t.Path = path[:len(path)-len(base)+dot]
	if c.Root != "" {
		rest, below := strings.CutPrefix(t.Path, c.Root+"/")
		if !below {
			return t, fmt.Errorf("it does not lie below %s", c.Root)
		}
		t.Path = naming.Join(c.Tree, rest)
	}
	return t, nil
}

// Below returns the convention as it is where it holds below a directory alone. The
// directory is not the data root.
func (c *Convention) Below(dir string) Convention {
	below := *c
	below.Glob = glob.Below(dir, c.Glob)
	if c.Root != "" {
		below.Root = naming.Join(dir, c.Root)
		below.Tree = strings.TrimSuffix(naming.Join(dir, c.Tree), "/")
	}
	return below
}
